//! Detection of Anthropic's models, and what a target rejects; signatures are in `sign.rs`.

mod sign;

use super::BedrockOptions;

#[test]
fn only_anthropic_models_use_invoke_model_by_default() {
    for model in [
        "anthropic.claude-3-haiku-20240307-v1:0",
        "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-3-haiku-20240307-v1:0",
    ] {
        assert!(BedrockOptions::is_anthropic(model), "{model}");
    }
    for model in [
        "amazon.nova-pro-v1:0",
        "us.meta.llama3-3-70b-instruct-v1:0",
        "meta.us.anthropic.x",
        "arn:aws:bedrock:us-east-1:1:application-inference-profile/ab12cd34",
        "arn:aws:bedrock:us-east-1:1:provisioned-model/anthropic",
        "arn:aws:bedrock:us-east-1:1:imported-model/x.anthropic",
        "anthropic",
        "",
    ] {
        assert!(!BedrockOptions::is_anthropic(model), "{model}");
    }
}
