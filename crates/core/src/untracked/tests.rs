use super::{
    InputBound, InputFeature, InputModel, InputProblem, UntrackedInput, UntrackedRule, UntrackedRules,
    input_bound,
};
use crate::media::{ImageSize, ImageTokens};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

fn model() -> InputModel {
    InputModel { window: Some(200_000), images: ImageTokens::ANTHROPIC, rules: UntrackedRules::default() }
}

fn rules(feature: InputFeature, rule: UntrackedRule) -> UntrackedRules {
    UntrackedRules::new(
        InputFeature::ALL.map(|other| if other == feature { rule } else { UntrackedRule::Reserve }),
    )
}

fn with(feature: InputFeature) -> UntrackedInput {
    let none = UntrackedInput::default();
    match feature {
        InputFeature::Image => UntrackedInput { referenced_images: 1, ..none },
        InputFeature::Document => UntrackedInput { referenced_documents: 1, ..none },
        InputFeature::PreviousResponse => UntrackedInput { continues_response: true, ..none },
        InputFeature::CachedContext => UntrackedInput { cached_context: true, ..none },
        InputFeature::ServerTool => UntrackedInput { tool_uses: Some(5), ..none },
    }
}

fn tokens(bytes: u64, input: &UntrackedInput) -> u64 {
    input_bound(bytes, Some(input), &model()).unwrap().tokens
}

#[test]
fn each_feature_has_its_tightest_bound() {
    for (feature, bound) in [
        (InputFeature::Image, 509 + 4_784),
        (InputFeature::Document, 200_000),
        (InputFeature::PreviousResponse, 200_000),
        (InputFeature::CachedContext, 200_000),
        (InputFeature::ServerTool, 6 * 200_000),
    ] {
        assert_eq!(tokens(209, &with(feature)), bound, "{feature}");
    }
    let pages = UntrackedInput { pages: 3, ..UntrackedInput::default() };
    assert_eq!(tokens(209, &pages), 509 + 3 * 7_784);
    let uses = UntrackedInput { tool_uses: Some(1), ..UntrackedInput::default() };
    assert_eq!(tokens(209, &uses), 2 * 200_000);
}

#[test]
fn a_picture_in_the_request_counts_as_a_picture_and_not_as_its_bytes() {
    let size = ImageSize { width: 1_000, height: 1_000 };
    let input =
        UntrackedInput { images: vec![Some(size)], media_bytes: 5_000_000, ..UntrackedInput::default() };
    assert_eq!(tokens(5_000_209, &input), 509 + 1_334);
    // Without it, the context window bounds this many bytes.
    assert_eq!(input_bound(5_000_209, None, &model()).unwrap().tokens, 200_000);
}

#[test]
fn a_rule_refuses_reserves_so_many_or_reserves_nothing() {
    for feature in InputFeature::ALL {
        let input = with(feature);
        let bound = |rule, model| {
            input_bound(209, Some(&input), &InputModel { rules: rules(feature, rule), ..model })
        };
        assert_eq!(bound(UntrackedRule::Refuse, model()), Err(InputProblem::Refused(feature)));
        assert_eq!(bound(UntrackedRule::Allow, model()).unwrap().tokens, 509, "{feature}");
        let reserved = bound(UntrackedRule::ReserveTokens(7_000), model()).unwrap();
        assert_eq!((reserved.tokens, reserved.largest), (7_509, Some((feature, 7_000))), "{feature}");
        let unknown = InputModel { window: None, ..model() };
        let bounded = bound(UntrackedRule::Reserve, unknown);
        match feature {
            InputFeature::Image => assert_eq!(bounded.unwrap().tokens, 509 + 4_784),
            _ => assert_eq!(bounded, Err(InputProblem::UnknownContextWindow(feature))),
        }
    }
    let message = InputProblem::UnknownContextWindow(InputFeature::Document).to_string();
    assert!(
        message.contains("models.NAME.context_window") && message.contains("limits.untracked_input.document"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn one_pass_never_passes_the_window_and_more_never_bounds_less(
        bytes in any::<u32>(), images in 0..9_u64, documents in 0..4_u64, continues_response: bool, window in 1..2_000_000_u64,
        uses in proptest::option::of(0..20_u64),
    ) {
        let model = InputModel { window: Some(window), ..model() };
        let input = UntrackedInput {
            referenced_images: images, referenced_documents: documents, continues_response, tool_uses: uses,
            ..UntrackedInput::default()
        };
        let bound = |input| input_bound(bytes.into(), Some(input), &model).unwrap();
        let InputBound { tokens, tool_uses, .. } = bound(&input);
        let passes = uses.map_or(1, |uses| uses + 1);
        prop_assert!(tokens <= window * passes);
        prop_assert_eq!(tool_uses, uses.unwrap_or(0));
        let plain = input_bound(bytes.into(), None, &model).unwrap();
        prop_assert!(plain.tokens <= tokens);
        if documents > 0 || continues_response {
            prop_assert_eq!(tokens, window * passes);
        }
    }
}
