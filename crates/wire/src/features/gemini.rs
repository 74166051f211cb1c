//! Field names of the Gemini API that affect cost. The vendor accepts each in camelCase and in snake_case.

/// Whether a field of this name holds media: inline, or only referenced.
pub(super) fn is_media(name: &[u8]) -> bool {
    matches!(name, b"inlineData" | b"inline_data" | b"fileData" | b"file_data")
}

/// Whether a field of this name in an entry of `tools` is a tool that the vendor runs or defines itself.
pub(super) fn is_vendor_tool(name: &[u8]) -> bool {
    matches!(
        name,
        b"googleSearch"
            | b"google_search"
            | b"googleSearchRetrieval"
            | b"google_search_retrieval"
            | b"enterpriseWebSearch"
            | b"enterprise_web_search"
            | b"googleMaps"
            | b"google_maps"
            | b"urlContext"
            | b"url_context"
            | b"codeExecution"
            | b"code_execution"
            | b"fileSearch"
            | b"file_search"
            | b"retrieval"
            | b"mcpServers"
            | b"mcp_servers"
            | b"computerUse"
            | b"computer_use"
    )
}
