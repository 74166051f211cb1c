mod errors;
mod filter;
mod request;
mod stream;
