//! Embeddings: OpenAI's `POST /v1/embeddings`, and the embedding models that Amazon Bedrock serves by InvokeModel.
//!
//! A request of OpenAI's API passes to an OpenAI-compatible server with another model name and nothing else changed. For
//! Titan and Cohere on Bedrock it is translated, and so is the answer. No text is generated: the output of a call is 0
//! tokens, and its cost is known from the input alone.

mod answer;
mod bedrock;
mod head;
#[cfg(test)]
mod tests;

pub use answer::{VectorEncoding, read_embeddings, write_embeddings};
pub use bedrock::BedrockEmbeddingModel;
pub use head::{EmbeddingsHead, EmbeddingsRequest, read_embeddings_head, read_embeddings_request};
