mod ages;
mod keys;
mod personal;
mod single_flight;
