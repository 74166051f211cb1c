mod ages;
mod flights;
mod keys;
mod personal;
