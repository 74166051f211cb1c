mod account;
mod errors;
mod request;
mod stream;
mod writing;
