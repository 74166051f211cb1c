use super::{ImportError, import_litellm};
use crate::load::{SettingsInput, load};
use crate::settings::Settings;
use seawall_core::time::UtcTime;

const CONFIG: &str = r#"
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://shop.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_EU
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: sk-this-must-not-be-copied
  - model_name: claude-*
    litellm_params:
      model: anthropic/*
      api_key: "os.environ/ANTHROPIC_API_KEY"
  - model_name: nova
    litellm_params:
      model: bedrock/converse/amazon.nova-pro-v1:0
      aws_region_name: eu-west-1
  - model_name: llama
    litellm_params:
      model: ollama/llama3.1
      api_base: http://localhost:11434
      input_cost_per_token: 0.0000005
      output_cost_per_token: 1.5e-06
  - model_name: strange
    litellm_params: {model: nlp_cloud/dolphin}
litellm_settings:
  drop_params: true
  max_budget: 100
  budget_duration: 1d
  success_callback: ["langfuse"]
router_settings:
  fallbacks: [{"claude-*": ["nova"]}, {"missing": ["nova"]}]
  redis_host: os.environ/REDIS_HOST
general_settings:
  master_key: sk-1234
  database_url: "postgresql://u:p@host/db"
"#;

fn accepted(text: &str) -> Settings {
    let input = SettingsInput::from_file("seawall.toml", text, UtcTime::from_civil(2026, 11, 18));
    load(&input).unwrap_or_else(|problems| panic!("{problems}\n{text}")).settings
}

#[test]
fn models_fallbacks_prices_and_the_budget_are_taken_over() {
    let imported = import_litellm(CONFIG).unwrap();
    assert_eq!((imported.targets, imported.routes), (5, 4), "{}", imported.text);
    let settings = accepted(&imported.text);
    let targets = |route: &str| settings.routes[route].targets.clone();
    assert_eq!(targets("gpt-4o"), ["gpt-4o-eu", "gpt-4o"]);
    assert_eq!(targets("claude-*"), ["anthropic", "nova-pro-v1-0"]);
    let azure = &settings.targets["gpt-4o-eu"];
    assert_eq!(azure.base_url.as_deref(), Some("https://shop.openai.azure.com/openai/v1"));
    assert_eq!(settings.targets["nova-pro-v1-0"].region.as_deref(), Some("eu-west-1"));
    assert!(settings.targets["anthropic"].is_for_any_model());
    assert_eq!(settings.budget.limits.day_cap(0).to_string(), "$100.00");
    assert!(imported.text.contains("input = \"$0.5/M\"\noutput = \"$1.5/M\""), "{}", imported.text);
}

#[test]
fn no_secret_is_copied_and_everything_left_out_is_named() {
    let imported = import_litellm(CONFIG).unwrap();
    let all = format!("{}{}", imported.text, imported.notes.join("\n"));
    for secret in ["sk-this", "sk-1234", "u:p@host"] {
        assert!(!all.contains(secret), "{all}");
    }
    for note in [
        "gpt-4o: rpm limits a deployment",
        "gpt-4o: the file contains its key; set it as OPENAI_API_KEY instead",
        "gpt-4o: its deployments are tried in order",
        "strange: provider \"nlp_cloud\" is not supported",
        "litellm_settings.drop_params",
        "litellm_settings.success_callback was not taken over",
        "router_settings.fallbacks: missing has no fallback",
        "router_settings.redis_host was not taken over",
        "general_settings.master_key",
        "general_settings.database_url",
    ] {
        assert!(imported.notes.iter().any(|text| text.starts_with(note)), "{note}: {:#?}", imported.notes);
    }
}

#[test]
fn a_region_or_role_in_a_variable_is_reported_and_never_written_as_its_name() {
    let yaml = "model_list:\n  - model_name: nova\n    litellm_params:\n      model: bedrock/amazon.nova-pro-v1:0\n      \
                aws_region_name: os.environ/AWS_REGION\n      aws_role_name: os.environ/BEDROCK_ROLE\n";
    let imported = import_litellm(yaml).unwrap();
    assert!(!imported.text.contains("os.environ"), "{}", imported.text);
    let target = &accepted(&imported.text).targets["nova-pro-v1-0"];
    assert_eq!((target.region.as_deref(), target.role_arn.as_deref()), (Some("us-east-1"), None));
    for note in [
        "nova: aws_region_name is in the variable AWS_REGION; write its value as region, or set \
         SEAWALL__TARGETS__NOVA_PRO_V1_0__REGION to it",
        "nova: aws_role_name is in the variable BEDROCK_ROLE; write its value as role_arn",
    ] {
        assert!(imported.notes.iter().any(|text| text.starts_with(note)), "{note}: {:#?}", imported.notes);
    }
}

#[test]
fn nothing_is_left_out_silently() {
    let yaml = "
model_list:
  - model_name: a
    litellm_params: {model: azure/a, api_base: 'https://a.openai.azure.com', api_key: os.environ/K, api_version: '2024-10-21'}
    model_info: {base_model: azure/gpt-4o, mode: chat, id: x1}
  - model_name: b
    litellm_params: {model: groq/b, input_cost_per_token: 0.000001, api_version: v9, num_retries: 2}
    model_info: {base_model: gpt-4o, max_tokens: 4096, supports_vision: true}
litellm_settings: {num_retries: 3, request_timeout: 600}
router_settings: {routing_strategy: least-busy, num_retries: 2, allowed_fails: 3, cooldown_time: 30}
";
    let notes = import_litellm(yaml).unwrap().notes;
    for note in [
        "a: litellm_params.api_version is not needed",
        "a: model_info.mode was not taken over",
        "b: litellm_params.api_version was not taken over",
        "b: litellm_params.num_retries was not taken over: retries depend",
        "b: litellm_params.input_cost_per_token was not taken over: a price needs both",
        "b: model_info.base_model was not taken over",
        "b: model_info.max_tokens was not taken over; the limit is [models.NAME] max_output",
        "b: model_info.supports_vision was not taken over",
        "litellm_settings.num_retries was not taken over: retries depend",
        "litellm_settings.request_timeout was not taken over: set deadlines.api",
        "router_settings.routing_strategy was not taken over: targets of a route are tried in order",
        "router_settings.num_retries was not taken over",
        "router_settings.allowed_fails was not taken over: a circuit breaker",
        "router_settings.cooldown_time was not taken over: a circuit breaker",
    ] {
        assert!(notes.iter().any(|text| text.starts_with(note)), "{note}: {notes:#?}");
    }
    assert!(!notes.iter().any(|note| note.contains("x1") || note.contains("model_info.id")), "{notes:#?}");
}

#[test]
fn other_files_are_rejected_without_their_content() {
    assert_eq!(import_litellm("a: 1").unwrap_err(), ImportError::NoModels);
    assert_eq!(import_litellm("").unwrap_err(), ImportError::NoModels);
    let broken = import_litellm("model_list: [\n  key: sk-secret: }").unwrap_err();
    assert!(
        matches!(broken, ImportError::NotYaml(_)) && !broken.to_string().contains("sk-secret"),
        "{broken}"
    );
    // Aliases that expand to billions of entries.
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    assert!(matches!(import_litellm(bomb), Err(ImportError::NotYaml(_) | ImportError::NoModels)));
    assert!(import_litellm("model_list: [1, {}, {model_name: x}]").unwrap().targets == 0);
}
