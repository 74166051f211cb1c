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
            pub(crate) origin: $crate::source::Origin,
            /// The dotted path of the section.
            pub(crate) path: String,
            $(
                $(#[doc = $doc])+
                pub(crate) $key: <$kind as $crate::field::Field>::Raw,
            )+
        }

        impl $crate::field::Section for $type {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            fn section_shape() -> $crate::shape::SectionShape {
                #[allow(unused_mut, unused_assignments, reason = "most sections call their keys keys")]
                let mut noun = ("key", $crate::problem::Code::UnknownKey);
                $( noun = ($noun, $crate::problem::Code::$code); )?
                $crate::shape::SectionShape {
                    doc: $crate::shape::joined(&[$($about),+]),
                    noun,
                    keys: vec![$({
                        let (shape, is_optional) = <$kind as $crate::field::Field>::shape();
                        $crate::shape::KeyShape {
                            name: stringify!($key),
                            doc: $crate::shape::joined(&[$($doc),+]),
                            shape,
                            is_optional,
                            default: $crate::section::default_of!($($default)?),
                            needs: $crate::section::needs_of!($($mark)?),
                        }
                    }),+],
                }
            }

            fn read_keys(
                table: &$crate::tree::Table,
                path: &str,
                origin: $crate::source::Origin,
                reader: &mut $crate::field::Reader<'_>,
            ) -> Self {
                Self {
                    origin,
                    path: path.to_owned(),
                    $($key: {
                        let path = $crate::field::join(path, stringify!($key));
                        let default = $crate::section::default_of!($($default)?);
                        let spot = $crate::field::Spot { path: &path, section: origin, default };
                        <$kind as $crate::field::Field>::read(table.get(stringify!($key)), &spot, reader)
                    },)+
                }
            }

        }

        impl $crate::field::Keyed for $type {
            fn origin_of(&self, key: &str) -> Option<$crate::source::Origin> {
                match key {
                    $( stringify!($key) => $crate::field::Written::written_at(&self.$key), )+
                    _ => None,
                }
            }

            fn origin(&self) -> $crate::source::Origin {
                self.origin
            }

            fn path(&self) -> &str {
                &self.path
            }
        }

        impl $crate::field::Written for $type {
            fn written_at(&self) -> Option<$crate::source::Origin> {
                Some(self.origin)
            }
        }

        impl $crate::field::Field for $type {
            type Raw = Self;

            fn shape() -> ($crate::shape::Shape, bool) {
                ($crate::shape::Shape::Section(<Self as $crate::field::Section>::section_shape()), false)
            }

            fn read(
                found: Option<&$crate::tree::Entry>,
                spot: &$crate::field::Spot<'_>,
                reader: &mut $crate::field::Reader<'_>,
            ) -> Self {
                $crate::field::read_section(found, spot, reader)
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

macro_rules! needs_of {
    () => {
        $crate::shape::Needs::Live
    };
    (restart) => {
        $crate::shape::Needs::Restart
    };
}

pub(crate) use {default_of, needs_of, section};
