mod answer;
mod any_stream;
mod count;
mod dialect;
mod errors;
mod head;
mod paths;
mod request;
mod stream;

/// Splits the bytes at the given positions.
fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// A stream of these chunks, in the vendor's form.
fn sse(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}
