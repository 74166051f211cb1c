use super::{LenientScalar, RequestFeatures, may_have_features, read_features};
use crate::RequestLimits;
use base64_simd::STANDARD as BASE64;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::media::ImageSize;
use seawall_core::money::{PriceDimension, RequestedPricing, ServiceTier, Surcharge};
use seawall_core::untracked::{MAX_PAGES, UntrackedInput};
use serde_json::{Value, json};

fn features(body: &Value) -> RequestFeatures {
    let text = body.to_string();
    let found = read_features(text.as_bytes(), &RequestLimits::default()).unwrap();
    // The scan has no false negatives.
    assert!(found == RequestFeatures::default() || may_have_features(text.as_bytes()), "{text}");
    found
}

fn untracked(body: &Value) -> UntrackedInput {
    features(body).untracked
}

fn message(part: &Value) -> Value {
    json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [part, {"type": "text", "text": "hi"}]}]})
}

fn png(width: u8, height: u8) -> String {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    file.extend([0, 0, width, 0, 0, 0, height, 0, 8, 2, 0, 0, 0]);
    BASE64.encode_to_string(file)
}

#[test]
fn an_ordinary_request_is_looked_at_once_and_has_nothing() {
    for body in [
        json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "\"type\":\"document\" \\ 漫画"}]}),
        json!({
            "model": "m", "stream": true, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "thinking": {"type": "enabled", "budget_tokens": 9}, "tool_choice": {"type": "auto"},
            "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object", "properties": {"type": {"type": "string"}}}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]}]},
            ],
        }),
        json!({
            "model": "m", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }),
        json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 5}}),
        json!({
            "model": "m", "store": false, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"},
            "text": {"format": {"type": "text"}}, "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "r"},
            ],
        }),
    ] {
        assert!(!may_have_features(body.to_string().as_bytes()), "{body}");
        assert_eq!(features(&body), RequestFeatures::default(), "{body}");
    }
}

#[test]
fn what_is_only_named_is_found_in_every_dialect() {
    let image = UntrackedInput { referenced_images: 1, ..UntrackedInput::default() };
    let document = UntrackedInput { referenced_documents: 1, ..UntrackedInput::default() };
    for (part, expected) in [
        (json!({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}), &image),
        (json!({"type": "image", "source": {"type": "file", "file_id": "f"}}), &image),
        (json!({"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}), &document),
        (json!({"type": "document", "source": {"type": "file", "file_id": "f"}}), &document),
        (json!({"type": "container_upload", "file_id": "f"}), &document),
        (json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}}), &image),
        (json!({"type": "image_url", "image_url": "https://x/y.png"}), &image),
        (json!({"type": "file", "file": {"file_id": "f"}}), &document),
        (json!({"type": "video_url", "video_url": {"url": "https://x/y"}}), &document),
        (json!({"image": {"format": "png", "source": {"s3Location": {"uri": "s3://x/y"}}}}), &image),
        (
            json!({"document": {"format": "pdf", "name": "n", "source": {"s3Location": {"uri": "s3://x/y"}}}}),
            &document,
        ),
        (
            json!({"type": "tool_result", "tool_use_id": "1", "content": [
                {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
            ]}),
            &document,
        ),
    ] {
        assert_eq!(&untracked(&message(&part)), expected, "{part}");
    }
    let escaped = r#"{"messages":[{"role":"user","content":[{"\u0074ype":"doc\u0075ment","sourc\u0065":{"url":"https://x"}}]}]}"#;
    assert!(may_have_features(escaped.as_bytes()));
    assert_eq!(read_features(escaped.as_bytes(), &RequestLimits::default()).unwrap().untracked, document);
    // A body that cannot be walked counts as one that references a document.
    let broken = r#"{"messages":[{"role":"user","content":[{"type":"document","text":"\ud800"}]}]}"#;
    assert_eq!(read_features(broken.as_bytes(), &RequestLimits::default()).unwrap().untracked, document);
}

#[test]
fn what_is_only_data_to_a_vendor_is_left_out() {
    let named = json!({"type": "document", "source": {"type": "url", "url": "https://x"}});
    for part in [
        json!({"type": "tool_use", "id": "1", "name": "t", "input": {"a": [named]}}),
        json!({"type": "search_result", "source": "https://x", "title": "t", "content": [{"type": "text", "text": "t"}]}),
        json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long text"}}),
        json!({"document": {"format": "txt", "name": "n", "source": {"bytes": "aGk="}}}),
    ] {
        assert_eq!(untracked(&message(&part)), UntrackedInput::default(), "{part}");
    }
}

#[test]
fn pictures_in_the_request_have_their_size_and_documents_their_pages() {
    let data = png(2, 1);
    let expected = UntrackedInput {
        images: vec![Some(ImageSize { width: 512, height: 256 })],
        media_bytes: data.len() as u64,
        ..UntrackedInput::default()
    };
    for part in [
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}),
        json!({"image": {"format": "png", "source": {"bytes": data}}}),
    ] {
        assert_eq!(untracked(&message(&part)), expected, "{part}");
    }
    let unreadable =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    assert_eq!(untracked(&message(&unreadable)).images, [None]);
    for (file, pages) in [
        ("%PDF-1.4 /Type /Pages /Count 2 /Type /Page /Type /Page", 2),
        ("%PDF-1.4 /Type /Pages /Count 7 /Kids [3 0 R 3 0 R] /Type /Page", 7),
        ("%PDF-1.4 /Type/Page>>/Type/Page>>/Type/Page>>", 3),
        ("%PDF-1.5 /Type /ObjStm /Type /Page", MAX_PAGES),
        ("PK zip", MAX_PAGES),
    ] {
        let data = BASE64.encode_to_string(file);
        let document = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}});
        assert_eq!(untracked(&message(&document)).pages, pages, "{file}");
    }
}

#[test]
fn tools_of_the_vendor_are_told_from_those_of_the_caller() {
    let tools = |tools: Value| untracked(&json!({"model": "m", "messages": [], "tools": tools}));
    assert_eq!(
        tools(json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}])).tool_uses,
        Some(2)
    );
    let several = json!([{"type": "web_fetch_20250910"}, {"type": "custom", "name": "c"}, {"type": "code_execution_20250825"}]);
    assert_eq!(tools(several).tool_uses, Some(10));
    let own =
        tools(json!([{"type": "bash_20250124", "name": "bash"}, {"type": "computer_toolset_20260801"}]));
    assert_eq!((own.tool_uses, own.vendor_tools), (None, 2));
    for body in [
        json!({"messages": [], "mcp_servers": [{"type": "url", "url": "https://x"}]}),
        json!({"messages": [], "web_search_options": {}}),
        json!({"messages": [], "toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}}),
        json!({"messages": [], "additionalModelRequestFields": {"tools": [{"type": "web_search_20250305"}]}}),
    ] {
        assert_eq!(untracked(&body).tool_uses, Some(5), "{body}");
    }
    assert!(untracked(&json!({"messages": [], "previous_response_id": "r"})).continues_response);
    assert!(untracked(&json!({"messages": [], "cached_content": "c"})).cached_context);
}

fn gemini(fields: &Value) -> Value {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    body.as_object_mut().unwrap().append(&mut fields.as_object().unwrap().clone());
    body
}

#[test]
fn an_ordinary_request_of_the_gemini_api_has_nothing() {
    let body = gemini(&json!({
        "systemInstruction": {"parts": [{"text": "s"}]}, "generationConfig": {"maxOutputTokens": 5, "topP": 1},
        "tools": [{"functionDeclarations": [
            {"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING"}}}}},
        ]}],
    }));
    assert!(!may_have_features(body.to_string().as_bytes()));
    assert_eq!(features(&body), RequestFeatures::default());
    // Arguments, results and schemas are plain data.
    let named = json!({"fileData": {"fileUri": "u"}, "source": {"url": "https://x"}, "tools": [{"googleSearch": {}}]});
    let body = gemini(&json!({
        "contents": [{"parts": [
            {"functionCall": {"name": "f", "args": named}}, {"functionResponse": {"name": "f", "response": named}},
        ]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": named}]}],
        "generationConfig": {"responseSchema": named},
    }));
    assert_eq!(features(&body), RequestFeatures::default());
}

#[test]
fn media_of_the_gemini_api_is_found_in_both_spellings() {
    let (data, pdf) = (png(2, 1), BASE64.encode_to_string("%PDF-1.4 /Type /Page /Type /Page"));
    let size = Some(ImageSize { width: 512, height: 256 });
    let image =
        UntrackedInput { images: vec![size], media_bytes: data.len() as u64, ..UntrackedInput::default() };
    let document = UntrackedInput { pages: 2, media_bytes: pdf.len() as u64, ..UntrackedInput::default() };
    let referenced_image = UntrackedInput { referenced_images: 1, ..UntrackedInput::default() };
    let referenced = UntrackedInput { referenced_documents: 1, ..UntrackedInput::default() };
    for (part, expected) in [
        (json!({"inlineData": {"mimeType": "image/png", "data": data}}), &image),
        (json!({"inline_data": {"data": data, "mime_type": "image/png"}}), &image),
        (json!({"inlineData": {"mimeType": "application/pdf", "data": pdf}}), &document),
        (json!({"inlineData": {"mimeType": "text/plain", "data": "aGk="}}), &UntrackedInput::default()),
        (json!({"fileData": {"mimeType": "image/png", "fileUri": "https://x/y"}}), &referenced_image),
        (json!({"file_data": {"file_uri": "https://x/y", "mime_type": "video/mp4"}}), &referenced),
        (json!({"fileData": {"fileUri": "https://x/y"}}), &referenced),
        (
            json!({"functionResponse": {"name": "f", "response": {}, "parts": [
                {"inlineData": {"mimeType": "image/png", "data": data}},
            ]}}),
            &image,
        ),
    ] {
        assert_eq!(&untracked(&gemini(&json!({"contents": [{"parts": [part]}]}))), expected, "{part}");
    }
    assert!(untracked(&gemini(&json!({"cachedContent": "cachedContents/1"}))).cached_context);
}

#[test]
fn tools_and_tiers_of_the_gemini_api_are_found() {
    for name in [
        "googleSearch",
        "google_search",
        "googleSearchRetrieval",
        "codeExecution",
        "code_execution",
        "urlContext",
        "url_context",
        "fileSearch",
        "file_search",
        "googleMaps",
        "google_maps",
        "mcpServers",
    ] {
        let tools = json!({"tools": [{"functionDeclarations": []}, {name: {}}]});
        assert_eq!(untracked(&gemini(&tools)).tool_uses, Some(5), "{name}");
    }
    assert_eq!(untracked(&gemini(&json!({"tools": [{"computerUse": {}}]}))).vendor_tools, 1);
    for (tier, service) in
        [("flex", Some(Surcharge::Flex)), ("priority", Some(Surcharge::Priority)), ("standard", None)]
    {
        for name in ["serviceTier", "service_tier"] {
            let pricing = features(&gemini(&json!({name: tier}))).pricing;
            let service = ServiceTier::default().with(PriceDimension::Tier, service);
            assert_eq!(pricing, RequestedPricing { service, ..RequestedPricing::default() }, "{name} {tier}");
        }
    }
}

#[test]
fn the_items_of_a_responses_body_are_read() {
    let item = |part: &Value| json!({"model": "m", "input": [{"role": "user", "content": [part]}]});
    let image = UntrackedInput { referenced_images: 1, ..UntrackedInput::default() };
    let document = UntrackedInput { referenced_documents: 1, ..UntrackedInput::default() };
    for (part, expected) in [
        (json!({"type": "input_image", "image_url": "https://x/y.png", "detail": "low"}), &image),
        (json!({"type": "input_image", "file_id": "f"}), &document),
        (json!({"type": "input_file", "file_id": "f"}), &document),
        (json!({"type": "input_file", "file_url": "https://x/y.pdf"}), &document),
        (
            json!({"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}),
            &UntrackedInput::default(),
        ),
    ] {
        assert_eq!(&untracked(&item(&part)), expected, "{part}");
    }
    let file = BASE64.encode_to_string("%PDF-1.4 /Type/Page>>/Type/Page>>");
    let data = format!("data:application/pdf;base64,{file}");
    assert_eq!(
        untracked(&item(&json!({"type": "input_file", "filename": "a.pdf", "file_data": data}))).pages,
        2
    );
    let picture = json!({"type": "input_image", "image_url": format!("data:image/png;base64,{}", png(2, 1))});
    let result = json!({"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": [picture]}]});
    assert_eq!(untracked(&result).images, [Some(ImageSize { width: 512, height: 256 })]);
    // What a tool is called with is only data, and a plain text is no feature.
    let named = json!({"type": "document", "source": {"type": "url", "url": "https://x"}}).to_string();
    for input in [
        json!([{"type": "function_call", "call_id": "c", "name": "f", "arguments": named}]),
        json!([{"type": "custom_tool_call", "call_id": "c", "name": "f", "input": named}]),
        json!([{"type": "reasoning", "summary": [], "encrypted_content": "x"}, {"role": "user", "content": "\"file_id\""}]),
        json!(named),
    ] {
        assert_eq!(untracked(&json!({"model": "m", "input": input})), UntrackedInput::default(), "{input}");
    }
    for body in [
        json!({"input": [{"type": "item_reference", "id": "msg_1"}]}),
        json!({"input": "hi", "previous_response_id": "r"}),
        json!({"input": "hi", "conversation": {"id": "c"}}),
        json!({"prompt": {"id": "p"}}),
    ] {
        assert!(untracked(&body).continues_response, "{body}");
    }
    let compacting =
        json!({"input": "hi", "context_management": [{"type": "compaction", "compact_threshold": 9}]});
    assert_eq!(untracked(&compacting).tool_uses, Some(1));
    for kind in [
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "mcp",
        "image_generation",
        "shell",
        "tool_search",
    ] {
        for tools in
            [json!([{"type": kind}]), json!([{"type": "namespace", "name": "n", "tools": [{"type": kind}]}])]
        {
            let body = json!({"model": "m", "input": "hi", "tools": tools});
            assert_eq!((untracked(&body).tool_uses, untracked(&body).vendor_tools), (Some(5), 0), "{body}");
        }
        // Tools that are added in the course of the conversation.
        let body = json!({"model": "m", "input": [{"type": "additional_tools", "tools": [{"type": kind}]}]});
        assert_eq!(untracked(&body).tool_uses, Some(5), "{body}");
    }
    for kind in ["computer", "computer_use_preview", "local_shell", "apply_patch"] {
        let body = json!({"model": "m", "input": "hi", "tools": [{"type": kind}]});
        assert_eq!((untracked(&body).tool_uses, untracked(&body).vendor_tools), (None, 1), "{kind}");
    }
    let functions = json!([{"type": "function", "name": "f"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]);
    assert_eq!(untracked(&json!({"input": "hi", "tools": functions})), UntrackedInput::default());
}

#[test]
fn what_changes_the_price_is_read_by_its_dimension() {
    let pricing = |body: Value| features(&body).pricing;
    let level = |dimension, served| ServiceTier::default().with(dimension, served);
    for (body, service) in [
        (json!({"service_tier": "priority"}), level(PriceDimension::Tier, Some(Surcharge::Priority))),
        (json!({"service_tier": "standard_only"}), level(PriceDimension::Tier, None)),
        (json!({"speed": "fast"}), level(PriceDimension::Speed, Some(Surcharge::Fast))),
        (json!({"inference_geo": "us"}), level(PriceDimension::Geography, Some(Surcharge::Us))),
        (
            json!({"serviceTier": {"type": "priority"}}),
            level(PriceDimension::Tier, Some(Surcharge::Priority)),
        ),
        (
            json!({"performanceConfig": {"latency": "optimized"}}),
            level(PriceDimension::Latency, Some(Surcharge::Optimized)),
        ),
        (
            json!({"additionalModelRequestFields": {"speed": "fast"}}),
            level(PriceDimension::Speed, Some(Surcharge::Fast)),
        ),
    ] {
        assert_eq!(
            pricing(body.clone()),
            RequestedPricing { service, ..RequestedPricing::default() },
            "{body}"
        );
    }
    assert_eq!(pricing(json!({"service_tier": "gold"})).unknown.as_deref(), Some("service_tier: gold"));
    let cached = |ttl: &str| {
        message(&json!({"type": "text", "text": "t", "cache_control": {"type": "ephemeral", "ttl": ttl}}))
    };
    assert!(pricing(cached("1h")).long_cache && !pricing(cached("5m")).long_cache);
}

proptest! {
    #[test]
    fn any_bytes_are_looked_at_and_read_without_harm(bytes: Vec<u8>, text in any::<String>()) {
        let _ = may_have_features(&bytes);
        let _ = may_have_features(text.as_bytes());
        let _ = read_features(&bytes, &RequestLimits::default());
        let body = json!({"messages": [{"role": "user", "content": text}]}).to_string();
        prop_assert!(!may_have_features(body.as_bytes()));
        let quoted = json!(text).to_string();
        let read: LenientScalar<'_> = serde_json::from_str(&quoted).unwrap();
        prop_assert_eq!(read.text.as_deref(), Some(text.as_str()));
    }
}
