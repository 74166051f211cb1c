//! Carrying one attempt to one vendor, and bringing the answer back as it arrives.
//!
//! So far this is the transport alone: [`http1`], the HTTP/1.1 client that every attempt over a plain socket
//! goes through. What a vendor's bytes mean is not known here, and neither are limits, budgets and breakers:
//! an attempt is made once, and who asked for it decides what a failure leads to.

pub mod http1;
