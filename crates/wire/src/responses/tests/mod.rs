mod answer;
mod chat_request;
mod chat_stream;
mod errors;
mod request;
mod strategies;
mod stream;
