//! Provider presets: what is known of a vendor or server, so that `provider = "groq"` is enough.

use crate::catalogue::Catalogue;
use crate::kind::Provider;
use seawall_core::vocabulary::{OpenAiApi, OutputLimitField};

/// How a server expects its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// As the API of the provider has it: a bearer token for OpenAI's.
    Standard,
    /// In the header `api-key`, as Azure has it.
    ApiKey,
}

/// Whether a server needs a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNeed {
    /// It rejects requests without one. The environment variable is used if the settings name no key.
    Required(&'static str),
    /// It may be configured to require one.
    Optional,
    /// It has another way to authenticate, or none.
    None,
}

/// How far a preset was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetTest {
    /// Its API was tested with the vendor's own clients against a simulated model.
    Clients,
    /// Only the simulated model answered, in `crates/cli/tests/program/presets.rs`; the base URL and the quirks are from the
    /// vendor's documentation.
    Simulator,
}

/// What is known of a provider.
#[derive(Debug, PartialEq, Eq)]
pub struct ProviderPreset {
    /// The name in `targets.NAME.provider`.
    pub name: &'static str,
    /// What the name means.
    pub description: &'static str,
    /// The API that it speaks.
    pub api_family: Provider,
    /// Its base URL; `None` if it has none that is the same for everybody, or if the API family has its own.
    pub base_url: Option<&'static str>,
    /// Whether the settings must name a base URL.
    pub needs_base_url: bool,
    /// Whether it needs a key.
    pub key: KeyNeed,
    /// How it expects the key.
    pub key_header: KeyHeader,
    /// The field for the output limit, for OpenAI-compatible servers.
    pub output_limit_field: OutputLimitField,
    /// Which of OpenAI's APIs it has.
    pub openai_api: OpenAiApi,
    /// Whether its models are free of charge, because they run on the operator's machines.
    pub is_free: bool,
    /// Its name in the price catalogue.
    pub catalogue: &'static str,
    /// How far it was tested.
    pub test: PresetTest,
}

/// A preset of an OpenAI-compatible vendor, from which most others differ little.
const COMPATIBLE: ProviderPreset = ProviderPreset {
    name: "",
    description: "",
    api_family: Provider::OpenAi,
    base_url: None,
    needs_base_url: false,
    key: KeyNeed::Optional,
    key_header: KeyHeader::Standard,
    output_limit_field: OutputLimitField::MaxTokens,
    openai_api: OpenAiApi::ChatCompletions,
    is_free: false,
    catalogue: "",
    test: PresetTest::Simulator,
};

/// A server on the operator's own machines.
const LOCAL: ProviderPreset = ProviderPreset { is_free: true, ..COMPATIBLE };

/// All presets, in the order of the documentation.
pub static PRESETS: &[ProviderPreset] = &[
    ProviderPreset {
        name: "anthropic",
        description: "Anthropic, and servers with its API",
        api_family: Provider::Anthropic,
        key: KeyNeed::Required("ANTHROPIC_API_KEY"),
        catalogue: "anthropic",
        test: PresetTest::Clients,
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "openai",
        description: "OpenAI; with a base URL, any OpenAI-compatible server",
        key: KeyNeed::Required("OPENAI_API_KEY"),
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        openai_api: OpenAiApi::Both,
        catalogue: "openai",
        test: PresetTest::Clients,
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "bedrock",
        description: "Amazon Bedrock",
        api_family: Provider::Bedrock,
        key: KeyNeed::None,
        catalogue: "bedrock",
        test: PresetTest::Clients,
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "gemini",
        description: "the Gemini API, and Gemini on Vertex AI",
        api_family: Provider::Gemini,
        key: KeyNeed::Required("GEMINI_API_KEY"),
        catalogue: "gemini",
        test: PresetTest::Clients,
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "azure",
        description: "Azure OpenAI (v1 API); model is the deployment name",
        needs_base_url: true,
        key: KeyNeed::Required("AZURE_OPENAI_API_KEY"),
        key_header: KeyHeader::ApiKey,
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        openai_api: OpenAiApi::Both,
        catalogue: "openai",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "openrouter",
        description: "OpenRouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key: KeyNeed::Required("OPENROUTER_API_KEY"),
        catalogue: "openrouter",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "groq",
        description: "Groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key: KeyNeed::Required("GROQ_API_KEY"),
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        catalogue: "groq",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "mistral",
        description: "Mistral AI",
        base_url: Some("https://api.mistral.ai/v1"),
        key: KeyNeed::Required("MISTRAL_API_KEY"),
        catalogue: "mistral",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "deepseek",
        description: "DeepSeek",
        base_url: Some("https://api.deepseek.com"),
        key: KeyNeed::Required("DEEPSEEK_API_KEY"),
        catalogue: "deepseek",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "together",
        description: "Together AI",
        base_url: Some("https://api.together.ai/v1"),
        key: KeyNeed::Required("TOGETHER_API_KEY"),
        catalogue: "together",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "fireworks",
        description: "Fireworks AI",
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        key: KeyNeed::Required("FIREWORKS_API_KEY"),
        catalogue: "fireworks",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "xai",
        description: "xAI",
        base_url: Some("https://api.x.ai/v1"),
        key: KeyNeed::Required("XAI_API_KEY"),
        catalogue: "xai",
        ..COMPATIBLE
    },
    ProviderPreset {
        name: "ollama",
        description: "Ollama on this machine",
        base_url: Some("http://localhost:11434/v1"),
        ..LOCAL
    },
    ProviderPreset {
        name: "vllm",
        description: "vLLM on this machine",
        base_url: Some("http://localhost:8000/v1"),
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        openai_api: OpenAiApi::Both,
        ..LOCAL
    },
    ProviderPreset {
        name: "sglang",
        description: "SGLang on this machine",
        base_url: Some("http://localhost:30000/v1"),
        output_limit_field: OutputLimitField::MaxCompletionTokens,
        openai_api: OpenAiApi::Both,
        ..LOCAL
    },
    ProviderPreset {
        name: "llamacpp",
        description: "the server of llama.cpp on this machine",
        base_url: Some("http://localhost:8080/v1"),
        ..LOCAL
    },
    ProviderPreset {
        name: "lmstudio",
        description: "LM Studio on this machine",
        base_url: Some("http://localhost:1234/v1"),
        ..LOCAL
    },
    ProviderPreset {
        name: "simulated",
        description: "the simulated model that comes with Seawall",
        api_family: Provider::Simulated,
        key: KeyNeed::None,
        test: PresetTest::Clients,
        ..COMPATIBLE
    },
];

/// The preset of this name.
#[must_use]
pub fn find_preset(name: &str) -> Option<&'static ProviderPreset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The page of all presets, as Markdown.
#[must_use]
pub fn provider_reference() -> String {
    let mut page = String::from(
        "# Providers\n\n\
         The values of `targets.NAME.provider`, and what each one implies. Everything can be set otherwise in the target.\n\n\
         | `provider` | what it is | base URL | API key | output limit | OpenAI APIs | prices | tested with |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for preset in PRESETS {
        let url = match preset.base_url {
            Some(url) => format!("`{url}`"),
            None if preset.needs_base_url => "must be set".to_owned(),
            None if preset.api_family == Provider::Simulated => "in this process".to_owned(),
            None => "the vendor's".to_owned(),
        };
        let key = match (preset.key, preset.key_header) {
            (KeyNeed::Required(variable), KeyHeader::Standard) => format!("`{variable}`"),
            (KeyNeed::Required(variable), KeyHeader::ApiKey) => format!("`{variable}`, sent as `api-key`"),
            (KeyNeed::Optional, _) => "optional".to_owned(),
            (KeyNeed::None, _) => "none".to_owned(),
        };
        let is_openai = preset.api_family == Provider::OpenAi;
        let or_none = |text: &'static str| if is_openai { format!("`{text}`") } else { String::new() };
        let prices = match preset.catalogue {
            "" if preset.is_free => "free of charge".to_owned(),
            "" => "settings".to_owned(),
            name if Catalogue::built_in().has_provider(name) => format!("catalogue, `{name}`"),
            _ => "settings, or a price file".to_owned(),
        };
        let test = match preset.test {
            PresetTest::Clients => "the vendor's clients and simulated models",
            PresetTest::Simulator => "simulated models only",
        };
        let cells = [
            format!("`{}`", preset.name),
            preset.description.to_owned(),
            url,
            key,
            or_none(preset.output_limit_field.name()),
            or_none(preset.openai_api.name()),
            prices,
            test.to_owned(),
        ];
        page.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    page.push_str(
        "\nThe key variable is used if the target has no `api_key`, and only for the provider's own base URL. No preset was \
         tested against the vendor's own servers.\n",
    );
    page
}
