//! Image tokens, by the rules that vendors publish.
//!
//! Each rule is an upper bound: vendors scale large images down before they count, which never yields more tokens. An
//! image whose size cannot be read counts as its vendor's maximum.

/// The size of an image in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Horizontal pixels.
    pub width: u32,
    /// Vertical pixels.
    pub height: u32,
}

impl ImageSize {
    /// Reads the size from the header of a PNG, GIF, WebP or JPEG file.
    ///
    /// ```
    /// use seawall_core::media::ImageSize;
    ///
    /// let gif = b"GIF89a\x40\x01\xf0\x00";
    /// assert_eq!(ImageSize::read(gif), Some(ImageSize { width: 320, height: 240 }));
    /// assert_eq!(ImageSize::read(b"%PDF"), None);
    /// ```
    #[must_use]
    pub fn read(file: &[u8]) -> Option<Self> {
        match file {
            [0x89, b'P', b'N', b'G', ..] => {
                Some(Self { width: big_endian(file, 16, 4)?, height: big_endian(file, 20, 4)? })
            }
            [b'G', b'I', b'F', b'8', ..] => {
                Some(Self { width: little_endian(file, 6, 2)?, height: little_endian(file, 8, 2)? })
            }
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => read_webp(file),
            [0xff, 0xd8, ..] => read_jpeg(file),
            _ => None,
        }
    }
}

fn read_webp(file: &[u8]) -> Option<ImageSize> {
    match file.get(12..16)? {
        b"VP8X" => Some(ImageSize {
            width: little_endian(file, 24, 3)? + 1,
            height: little_endian(file, 27, 3)? + 1,
        }),
        b"VP8L" => {
            let bits = little_endian(file, 21, 4)?;
            Some(ImageSize { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
        }
        b"VP8 " => Some(ImageSize {
            width: little_endian(file, 26, 2)? & 0x3fff,
            height: little_endian(file, 28, 2)? & 0x3fff,
        }),
        _ => None,
    }
}

/// Skips segments until one begins a frame.
fn read_jpeg(file: &[u8]) -> Option<ImageSize> {
    let mut at = 2;
    loop {
        if *file.get(at)? != 0xff {
            return None;
        }
        match *file.get(at + 1)? {
            // Padding before a marker.
            0xff => at += 1,
            // Markers without content.
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let (height, width) = (big_endian(file, at + 5, 2)?, big_endian(file, at + 7, 2)?);
                return Some(ImageSize { width, height });
            }
            _ => at += 2 + usize::try_from(big_endian(file, at + 2, 2)?.max(2)).ok()?,
        }
    }
}

fn big_endian(file: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(file.get(at..at + length)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little_endian(file: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(file.get(at..at + length)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// How a model counts image tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageTokens {
    rule: ImageRule,
    /// Maximum tokens of one image.
    max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageRule {
    /// Patches of 28 pixels, or a token per 750 pixels for older models.
    Anthropic,
    /// Tiles of 512 pixels for some models, patches of 32 pixels times a factor for others.
    OpenAi,
    /// Not published: every image counts as the maximum.
    Unknown,
}

impl ImageTokens {
    /// Anthropic's models: at most 4,784 tokens (high resolution).
    pub const ANTHROPIC: Self = Self { rule: ImageRule::Anthropic, max: 4_784 };
    /// OpenAI's models: at most 10,000 patches times 2.46.
    pub const OPENAI: Self = Self { rule: ImageRule::OpenAi, max: 24_600 };
    /// Models whose rule is unknown.
    pub const UNKNOWN: Self = Self { rule: ImageRule::Unknown, max: 24_600 };

    /// The rule for the model with this id, by its vendor.
    ///
    /// ```
    /// use seawall_core::media::ImageTokens;
    ///
    /// assert_eq!(ImageTokens::of_model("jp.anthropic.claude-opus-5-5"), ImageTokens::ANTHROPIC);
    /// ```
    #[must_use]
    pub fn of_model(model: &str) -> Self {
        let openai = ["gpt-", "o1", "o3", "o4", "chatgpt"];
        let name = model.rsplit('/').next().unwrap_or(model);
        if model.contains("claude") {
            Self::ANTHROPIC
        } else if name.contains("4o-mini") {
            // It counts 33 times as many tokens as others, at a thirty-third of the price.
            Self { rule: ImageRule::Unknown, max: 48_169 }
        } else if openai.iter().any(|prefix| name.starts_with(prefix)) || model.contains("openai.gpt") {
            Self::OPENAI
        } else {
            Self::UNKNOWN
        }
    }

    /// A copy with another maximum.
    #[must_use]
    pub const fn with_max(self, max: u64) -> Self {
        Self { max, ..self }
    }

    /// Maximum tokens of any image.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Upper bound of the tokens of an image of this size.
    ///
    /// ```
    /// use seawall_core::media::{ImageSize, ImageTokens};
    ///
    /// let square = ImageSize { width: 1_000, height: 1_000 };
    /// assert_eq!(ImageTokens::ANTHROPIC.of(Some(square)), 1_334);
    /// assert_eq!(ImageTokens::ANTHROPIC.of(None), 4_784);
    /// ```
    #[must_use]
    pub fn of(&self, size: Option<ImageSize>) -> u64 {
        let Some(ImageSize { width, height }) = size else { return self.max };
        let squares =
            |side: u32| u64::from(width.div_ceil(side)).saturating_mul(height.div_ceil(side).into());
        let tokens = match self.rule {
            ImageRule::Anthropic => {
                squares(28).max(u64::from(width).saturating_mul(height.into()).div_ceil(750))
            }
            ImageRule::OpenAi => {
                // At most 8 tiles remain once the image is scaled to fit a side of 2,048 and one of 768.
                let tiles = squares(512).min(8).saturating_mul(170).saturating_add(85);
                tiles.max(squares(32).min(10_000).saturating_mul(246).div_ceil(100))
            }
            ImageRule::Unknown => self.max,
        };
        tokens.min(self.max)
    }
}

impl ImageTokens {
    /// The tokens that the vendor counts for an image of this size, by the rule that it publishes for this model,
    /// rather than an upper bound. An image of unknown size counts as the largest.
    ///
    /// Anthropic scales an image down until its long side and its number of 28-pixel patches fit the model, and counts
    /// the patches.
    ///
    /// ```
    /// use seawall_core::media::{ImageSize, ImageTokens};
    ///
    /// let screen = Some(ImageSize { width: 1_920, height: 1_080 });
    /// assert_eq!(ImageTokens::ANTHROPIC.counted("claude-sonnet-4-20250514", screen), 1_560);
    /// assert_eq!(ImageTokens::ANTHROPIC.counted("claude-opus-5", screen), 2_691);
    /// ```
    #[must_use]
    pub fn counted(&self, model: &str, size: Option<ImageSize>) -> u64 {
        if self.rule != ImageRule::Anthropic {
            return self.of(size);
        }
        let (long_side, max_tokens) = if is_high_resolution(model) { (2_576, 4_784) } else { (1_568, 1_568) };
        let Some(ImageSize { width, height }) = size else { return max_tokens.min(self.max) };
        let (long, short) = (u64::from(width.max(height)).max(1), u64::from(width.min(height)).max(1));
        let scaled_long = long.min(long_side);
        let squares = |long_pixels: u64| {
            let short_pixels = long_pixels.saturating_mul(short).div_ceil(long);
            long_pixels.div_ceil(PATCH_SIDE).saturating_mul(short_pixels.div_ceil(PATCH_SIDE))
        };
        if squares(scaled_long) <= max_tokens {
            return squares(scaled_long).min(self.max);
        }
        let fitting =
            (1..=scaled_long.div_ceil(PATCH_SIDE)).rev().map(|columns| squares(columns * PATCH_SIDE));
        fitting.into_iter().find(|tokens| *tokens <= max_tokens).unwrap_or(1).min(self.max)
    }
}

/// Side of the patches that Anthropic counts, in pixels.
const PATCH_SIDE: u64 = 28;

/// Whether this is one of Anthropic's models of version 4.7 or later.
fn is_high_resolution(model: &str) -> bool {
    let mut parts = model.split(['-', '.', ':', '@', '/']).skip_while(|part| *part != "claude");
    let number = |part: &str| part.parse::<u32>().ok().filter(|_| part.len() <= 2);
    let Some(major) = parts.by_ref().find_map(number) else { return false };
    (major, parts.next().and_then(number).unwrap_or(0)) >= (4, 7)
}

#[cfg(test)]
mod tests {
    use super::{ImageSize, ImageTokens, is_high_resolution};
    use proptest::prelude::{any, prop_assert, proptest};

    #[test]
    fn the_size_is_read_from_the_head_of_each_kind_of_file() {
        let size = |width, height| Some(ImageSize { width, height });
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([0, 0, 7, 128, 0, 0, 4, 56]);
        assert_eq!(ImageSize::read(&png), size(1_920, 1_080));
        let mut jpeg = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc2, 0, 17, 8];
        jpeg.extend([2, 88, 3, 32]);
        assert_eq!(ImageSize::read(&jpeg), size(800, 600));
        let webp = |kind: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", kind, b"\0\0\0\0", rest].concat();
        assert_eq!(ImageSize::read(&webp(b"VP8X", &[0, 0, 0, 0, 63, 1, 0, 239, 0, 0])), size(320, 240));
        assert_eq!(ImageSize::read(&webp(b"VP8L", &[0x2f, 0x3f, 0xc1, 0x3b, 0])), size(320, 240));
        assert_eq!(ImageSize::read(&webp(b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0])), size(320, 240));
        for short in [&png[..20], &jpeg[..16], b"GIF89a", b"RIFF", &[0xff, 0xd8], b""] {
            assert_eq!(ImageSize::read(short), None);
        }
    }

    #[test]
    fn published_examples_are_within_their_bounds() {
        for (tokens, width, height, published) in [
            (ImageTokens::ANTHROPIC, 1_000, 1_000, 1_296),
            (ImageTokens::ANTHROPIC, 1_920, 1_080, 2_691),
            (ImageTokens::ANTHROPIC, 3_840, 2_160, 4_784),
            (ImageTokens::OPENAI, 1_024, 1_024, 765),
            (ImageTokens::OPENAI, 4_000, 4_000, 1_445),
        ] {
            let bound = tokens.of(Some(ImageSize { width, height }));
            assert!(published <= bound && bound <= tokens.max(), "{width} x {height}: {bound}");
        }
        assert_eq!(ImageTokens::of_model("gpt-4o-mini").max(), 48_169);
        assert_eq!(ImageTokens::of_model("openai/gpt-5"), ImageTokens::OPENAI);
        assert_eq!(ImageTokens::of_model("llava").with_max(9).of(None), 9);
    }

    #[test]
    fn pictures_are_counted_by_the_published_rule_of_their_model() {
        for (width, height, standard, high) in [
            (1_000, 1_000, 1_296, 1_296),
            (1_920, 1_080, 1_560, 2_691),
            (1_080, 1_920, 1_560, 2_691),
            (3_840, 2_160, 1_560, 4_784),
            (1, 1, 1, 1),
            (100_000, 1, 56, 92),
        ] {
            let size = Some(ImageSize { width, height });
            assert_eq!(
                ImageTokens::ANTHROPIC.counted("claude-3-haiku-20240307", size),
                standard,
                "{width} {height}"
            );
            assert_eq!(ImageTokens::ANTHROPIC.counted("claude-opus-4-7", size), high, "{width} {height}");
        }
        assert_eq!(ImageTokens::ANTHROPIC.counted("claude-opus-4-1-20250805", None), 1_568);
        assert_eq!(ImageTokens::OPENAI.counted("gpt-5", None), ImageTokens::OPENAI.max());
        for (model, is_high) in [
            ("anthropic.claude-3-5-sonnet-20241022-v2:0", false),
            ("anthropic.claude-3-haiku-20240307-v1:0", false),
            ("jp.anthropic.claude-opus-5-5", true),
            ("claude-opus-4-20250514", false),
            ("claude-sonnet-5", true),
            ("claude-instant", false),
        ] {
            assert_eq!(is_high_resolution(model), is_high, "{model}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_size_or_none_and_no_picture_passes_the_most(bytes: Vec<u8>, kind in 0..5_usize) {
            let heads: [&[u8]; 5] = [b"\x89PNG", b"GIF8", b"RIFF\0\0\0\0WEBPVP8 ", &[0xff, 0xd8, 0xff], b""];
            let size = ImageSize::read(&[heads[kind], &bytes].concat());
            prop_assert!(ImageTokens::ANTHROPIC.of(size) <= ImageTokens::ANTHROPIC.max());
        }

        #[test]
        fn a_smaller_picture_never_counts_more(width in any::<u32>(), height in any::<u32>(), less in any::<u32>()) {
            for tokens in [ImageTokens::ANTHROPIC, ImageTokens::OPENAI, ImageTokens::UNKNOWN] {
                let smaller = ImageSize { width: width.min(less), height };
                let whole = tokens.of(Some(ImageSize { width, height }));
                prop_assert!(tokens.of(Some(smaller)) <= whole);
                prop_assert!(tokens.counted("claude-opus-5", Some(smaller)) <= tokens.of(Some(smaller)));
            }
        }
    }
}
