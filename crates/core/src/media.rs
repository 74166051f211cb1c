//! How many tokens a picture comes to, by the rules that vendors publish.
//!
//! Each rule is an upper bound: vendors scale large pictures down before they count, which never makes more tokens. A picture
//! whose size cannot be read counts as the most that its vendor ever counts.

/// The size of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

impl ImageSize {
    /// The size that the beginning of a PNG, GIF, WebP or JPEG file gives.
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

/// From segment to segment until one begins a frame.
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

/// How a model counts pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageTokens {
    rule: ImageRule,
    /// The most tokens of one picture.
    max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageRule {
    /// Squares of 28 pixels, or a token for 750 pixels at older models.
    Anthropic,
    /// Tiles of 512 pixels at some models, squares of 32 pixels times a factor at others.
    OpenAi,
    /// Not published: every picture is one of the largest.
    Unknown,
}

impl ImageTokens {
    /// As Anthropic's models count: at most 4,784 (high resolution).
    pub const ANTHROPIC: Self = Self { rule: ImageRule::Anthropic, max: 4_784 };
    /// As OpenAI's models count: at most 10,000 squares times 2.46.
    pub const OPENAI: Self = Self { rule: ImageRule::OpenAi, max: 24_600 };
    /// As a model counts of which nothing is known.
    pub const UNKNOWN: Self = Self { rule: ImageRule::Unknown, max: 24_600 };

    /// As the model of this id counts, by whoever made it.
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
            // It counts 33 times as many as others do, at a thirty-third of the price.
            Self { rule: ImageRule::Unknown, max: 48_169 }
        } else if openai.iter().any(|prefix| name.starts_with(prefix)) || model.contains("openai.gpt") {
            Self::OPENAI
        } else {
            Self::UNKNOWN
        }
    }

    /// The same with another most.
    #[must_use]
    pub const fn at_most(self, max: u64) -> Self {
        Self { max, ..self }
    }

    /// The most tokens that any picture has.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// The most tokens that a picture of this size has.
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
                // At the most 8 tiles are left when a side of 2,048 and one of 768 are not passed.
                let tiles = squares(512).min(8).saturating_mul(170).saturating_add(85);
                tiles.max(squares(32).min(10_000).saturating_mul(246).div_ceil(100))
            }
            ImageRule::Unknown => self.max,
        };
        tokens.min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::{ImageSize, ImageTokens};
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
        assert_eq!(ImageTokens::of_model("llava").at_most(9).of(None), 9);
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
            }
        }
    }
}
