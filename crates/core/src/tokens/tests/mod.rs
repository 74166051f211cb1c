mod calibration;
mod estimate;
mod scan;
