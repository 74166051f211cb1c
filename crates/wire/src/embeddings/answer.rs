//! Answers of OpenAI's embeddings API.

use crate::answer_error::AnswerError;
use crate::chat::{Usage, UsageReport};
use crate::json_out::put_json;
use crate::lenient::Lenient;
use base64_simd::STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The encoding of the vectors in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorEncoding {
    /// A list of numbers.
    #[default]
    Float,
    /// The numbers as 32-bit floats, little-endian, in base64. OpenAI's client libraries request it by default.
    Base64,
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(rename = "data")]
    _data: Vec<IgnoredAny>,
    #[serde(default)]
    usage: Lenient<EmbeddingsUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EmbeddingsUsage {
    prompt_tokens: Lenient<u64>,
}

/// Reads the usage of an answer that passes through.
pub(super) fn read_usage(body: &[u8]) -> Result<UsageReport, AnswerError> {
    let body: UsageBody = parse(body)?;
    let input = body.usage.get().and_then(|usage| usage.prompt_tokens.get().copied());
    let usage = Usage { input: input.unwrap_or(0), ..Usage::NONE };
    Ok(UsageReport { usage, output_reported: true })
}

pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, AnswerError> {
    serde_json::from_slice(body).map_err(|error| AnswerError::unreadable(&error.to_string()))
}

#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
    model: &'a str,
    usage: AnswerUsage,
}

#[derive(Serialize)]
struct Entry<'a> {
    object: &'static str,
    index: usize,
    embedding: Vector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector<'a> {
    Float(&'a [f32]),
    Base64(String),
}

#[derive(Serialize)]
struct AnswerUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// Writes an answer with these vectors, in the order of the texts.
#[must_use]
pub fn write_embeddings(
    vectors: &[Vec<f32>],
    encoding: VectorEncoding,
    model: &str,
    input_tokens: u64,
) -> Bytes {
    let vector = |vector: &'_ [f32]| match encoding {
        VectorEncoding::Float => None,
        VectorEncoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            Some(BASE64.encode_to_string(bytes))
        }
    };
    let entries = vectors.iter().enumerate().map(|(index, numbers)| {
        let embedding = vector(numbers).map_or(Vector::Float(numbers), Vector::Base64);
        Entry { object: "embedding", index, embedding }
    });
    let usage = AnswerUsage { prompt_tokens: input_tokens, total_tokens: input_tokens };
    let mut out = BytesMut::new();
    put_json(&mut out, &Answer { object: "list", data: entries.collect(), model, usage });
    out.freeze()
}

#[derive(Deserialize)]
struct ReadBody<'a> {
    #[serde(borrow)]
    data: Vec<ReadEntry<'a>>,
}

#[derive(Deserialize)]
struct ReadEntry<'a> {
    #[serde(borrow)]
    embedding: &'a RawValue,
}

/// Reads the vectors of an answer, in either encoding.
pub fn read_embeddings(body: &[u8]) -> Result<Vec<Vec<f32>>, AnswerError> {
    let body: ReadBody<'_> = parse(body)?;
    let vector = |entry: ReadEntry<'_>| {
        let raw = entry.embedding.get();
        if !raw.starts_with('"') {
            return parse(raw.as_bytes());
        }
        let text: String = parse(raw.as_bytes())?;
        let bytes =
            BASE64.decode_to_vec(text).map_err(|error| AnswerError::unreadable(&error.to_string()))?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(AnswerError::unreadable("a vector is cut"));
        }
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    };
    body.data.into_iter().map(vector).collect()
}
