//! The sources of images and documents in a request, and the size that their bytes reveal.

use super::scalar::LenientScalar;
use base64_simd::STANDARD as BASE64;
use seawall_core::media::ImageSize;
use seawall_core::untracked::{MAX_PAGES, UntrackedInput};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The source of an image or document.
#[derive(Default)]
pub(super) struct MediaSource<'a> {
    /// Inline content in base64.
    pub(super) data: Option<Cow<'a, str>>,
    pub(super) media_type: Cow<'a, str>,
    /// Whether the content is only referenced (URL, file id, S3 location), so that its size is unknown.
    pub(super) is_reference: bool,
    /// Whether the source is a string instead of an object.
    pub(super) is_text: bool,
}

impl<'de> Deserialize<'de> for MediaSource<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(SourceVisitor)
    }
}

struct SourceVisitor;

impl<'de> Visitor<'de> for SourceVisitor {
    type Value = MediaSource<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a source")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<MediaSource<'de>, E> {
        Ok(MediaSource { is_text: true, ..MediaSource::of_url(Cow::Borrowed(text)) })
    }

    fn visit_str<E>(self, text: &str) -> Result<MediaSource<'de>, E> {
        Ok(MediaSource { is_text: true, ..MediaSource::of_url(Cow::Owned(text.to_owned())) })
    }

    fn visit_unit<E>(self) -> Result<MediaSource<'de>, E> {
        Ok(MediaSource::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MediaSource<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(MediaSource::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MediaSource<'de>, A::Error> {
        let mut source = MediaSource::default();
        while let Some(key) = map.next_key::<LenientScalar<'de>>()? {
            match &*key.text.unwrap_or_default() {
                "data" | "bytes" => source.data = map.next_value::<LenientScalar<'de>>()?.text,
                "url" | "file_data" => {
                    let Some(url) = map.next_value::<LenientScalar<'de>>()?.text else { continue };
                    let named = source.is_reference;
                    source = MediaSource::of_url(url);
                    source.is_reference |= named;
                }
                "media_type" | "mimeType" | "mime_type" => {
                    source.media_type = map.next_value::<LenientScalar<'de>>()?.text.unwrap_or_default();
                }
                "file_id" | "s3Location" | "uri" | "fileUri" | "file_uri" => {
                    map.next_value::<IgnoredAny>()?;
                    source.is_reference = true;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(source)
    }
}

impl<'a> MediaSource<'a> {
    /// Reads a URL: a `data:` URL is inline content, any other URL is a reference.
    pub(super) fn of_url(url: Cow<'a, str>) -> Self {
        let Some(rest) = url.strip_prefix("data:") else {
            return Self { is_reference: true, ..Self::default() };
        };
        let comma = rest.find(',').map_or(url.len(), |comma| comma + "data:,".len());
        let media_type = rest.split([';', ',']).next().unwrap_or_default().to_owned().into();
        let data = match url {
            Cow::Borrowed(url) => Cow::Borrowed(url.get(comma..).unwrap_or_default()),
            Cow::Owned(url) => Cow::Owned(url.get(comma..).unwrap_or_default().to_owned()),
        };
        Self { data: Some(data), media_type, ..Self::default() }
    }

    pub(super) fn count(&self, is_image: bool, format: &str, untracked: &mut UntrackedInput) {
        match (&self.data, is_image) {
            _ if self.is_reference && is_image => untracked.referenced_images += 1,
            _ if self.is_reference => untracked.referenced_documents += 1,
            (None, _) => {}
            (Some(data), true) => {
                untracked.images.push(image_size(data));
                untracked.media_bytes += data.len() as u64;
            }
            (Some(_), false) if is_text(&self.media_type, format) => {}
            (Some(data), false) => {
                untracked.pages = untracked.pages.saturating_add(pages(data).unwrap_or(MAX_PAGES));
                untracked.media_bytes += data.len() as u64;
            }
        }
    }
}

/// Whether a document's bytes are its text, so that they bound its token count.
fn is_text(media_type: &str, format: &str) -> bool {
    media_type.starts_with("text/") || matches!(format, "txt" | "md" | "csv" | "html")
}

/// Number of base64 characters inspected per image: its dimensions are near the beginning.
const IMAGE_HEAD: usize = 64 << 10;

fn image_size(base64: &str) -> Option<ImageSize> {
    let head = base64.as_bytes();
    let head = head.get(..IMAGE_HEAD).unwrap_or(head);
    // Base64 decodes in groups of four characters; only the last group may be padded.
    let head = &head[..head.len() / 4 * 4];
    ImageSize::read(&BASE64.decode_to_vec(head).ok()?)
}

/// The page count of a PDF. `None` if the bytes do not reveal it: PDFs with compressed objects or escaped names.
fn pages(base64: &str) -> Option<u64> {
    let file = BASE64.decode_to_vec(base64.as_bytes()).ok()?;
    if !file.starts_with(b"%PDF") || memchr::memmem::find(&file, b"/ObjStm").is_some() {
        return None;
    }
    let is_name_end =
        |at: usize| file.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#');
    let found = memchr::memmem::find_iter(&file, b"/Page").filter(|at| is_name_end(at + 5)).count() as u64;
    let count = memchr::memmem::find_iter(&file, b"/Count").filter_map(|at| {
        let digits = file.get(at + 6..)?.trim_ascii_start();
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        str::from_utf8(&digits[..length]).ok()?.parse::<u64>().ok()
    });
    let pages = count.max().unwrap_or(0).max(found);
    (1..=MAX_PAGES).contains(&pages).then_some(pages)
}
