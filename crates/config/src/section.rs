//! The macro that defines a section.

/// Defines a section: its parsed type, its parser, its shape, and the origin of each key.
///
/// A key is `name: Kind`, then optionally `[restart]` if a change needs a restart, then optionally `= "TOML"` for its
/// default.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub(crate) struct $type:ident $(as $noun:literal or $code:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $key:ident : $kind:ty $([$mark:ident])? $(= $default:literal)?,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(crate) struct $type {
            /// The origin of the section.
            pub(crate) origin: $crate::source::SettingOrigin,
            /// The dotted path of the section.
            pub(crate) path: String,
            $(
                $(#[doc = $doc])+
                pub(crate) $key: <$kind as $crate::field::SettingField>::Raw,
            )+
        }

        impl $crate::field::SettingSection for $type {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            fn section_shape() -> $crate::shape::SectionShape {
                #[allow(unused_mut, unused_assignments, reason = "most sections use the default")]
                let mut noun = ("key", $crate::problem::ProblemCode::UnknownKey);
                $( noun = ($noun, $crate::problem::ProblemCode::$code); )?
                $crate::shape::SectionShape {
                    doc: $crate::shape::join_lines(&[$($about),+]),
                    noun,
                    keys: vec![$({
                        let (shape, is_optional) = <$kind as $crate::field::SettingField>::shape();
                        $crate::shape::KeyShape {
                            name: stringify!($key),
                            doc: $crate::shape::join_lines(&[$($doc),+]),
                            shape,
                            is_optional,
                            default: $crate::section::default_of!($($default)?),
                            activation: $crate::section::activation_of!($($mark)?),
                        }
                    }),+],
                }
            }

            fn read_keys(
                table: &$crate::tree::TomlTable,
                path: &str,
                origin: $crate::source::SettingOrigin,
                reader: &mut $crate::field::SectionReader<'_>,
            ) -> Self {
                Self {
                    origin,
                    path: path.to_owned(),
                    $($key: {
                        let path = $crate::field::join(path, stringify!($key));
                        let default = $crate::section::default_of!($($default)?);
                        let location = $crate::field::KeyLocation { path: &path, section: origin, default };
                        <$kind as $crate::field::SettingField>::read(table.get(stringify!($key)), &location, reader)
                    },)+
                }
            }

        }

        impl $crate::field::KeyOrigins for $type {
            fn origin_of(&self, key: &str) -> Option<$crate::source::SettingOrigin> {
                match key {
                    $( stringify!($key) => $crate::field::HasOrigin::value_origin(&self.$key), )+
                    _ => None,
                }
            }

            fn origin(&self) -> $crate::source::SettingOrigin {
                self.origin
            }

            fn path(&self) -> &str {
                &self.path
            }
        }

        impl $crate::field::HasOrigin for $type {
            fn value_origin(&self) -> Option<$crate::source::SettingOrigin> {
                Some(self.origin)
            }
        }

        impl $crate::field::SettingField for $type {
            type Raw = Self;

            fn shape() -> ($crate::shape::ValueShape, bool) {
                ($crate::shape::ValueShape::Section(<Self as $crate::field::SettingSection>::section_shape()), false)
            }

            fn read(
                found: Option<&$crate::tree::TomlEntry>,
                location: &$crate::field::KeyLocation<'_>,
                reader: &mut $crate::field::SectionReader<'_>,
            ) -> Self {
                $crate::field::read_section(found, location, reader)
            }
        }
    };
}

macro_rules! default_of {
    () => {
        None
    };
    ($default:literal) => {
        Some($default)
    };
}

macro_rules! activation_of {
    () => {
        $crate::shape::Activation::Live
    };
    (restart) => {
        $crate::shape::Activation::Restart
    };
}

pub(crate) use {activation_of, default_of, section};
