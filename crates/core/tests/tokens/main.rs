//! Estimates against real tokenizers, on texts that the weights were not fitted to.
//!
//! The true counts are stored beside the texts; `cargo xtask tokens` makes them.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod output;

#[cfg(test)]
mod tests {
    use crate::corpus::{KINDS, Sample, TrueCounts, stored_counts, texts};
    use seawall_core::tokens::{
        Calibration, OverheadOptions, RequestCounts, TextCounts, TokenizerFamily, estimate,
    };
    use std::path::{Path, PathBuf};

    /// Mean absolute error before anything was learned.
    const MAX_ERROR: f64 = 0.20;
    /// The same after bills have taught.
    const MAX_CALIBRATED_ERROR: f64 = 0.12;

    const NOTHING: OverheadOptions = OverheadOptions { request: 0, message: 0, reserve: 0 };
    const MODELS: [&str; 3] = ["claude-sonnet", "gpt-4o", "gpt-4"];

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokens")
    }

    fn corpus() -> Vec<(Sample, TrueCounts)> {
        let samples = texts(&directory());
        let counts = stored_counts(&directory(), &samples);
        samples.into_iter().zip(counts).collect()
    }

    fn truth(model: &str, counts: &TrueCounts) -> u64 {
        match TokenizerFamily::of_model(model) {
            TokenizerFamily::Claude => counts.claude,
            TokenizerFamily::OpenAi => counts.openai,
            TokenizerFamily::OlderOpenAi => counts.older_openai,
            TokenizerFamily::Generic => counts.claude.max(counts.openai).max(counts.older_openai),
        }
    }

    fn best(model: &str, text: &str, calibration: &Calibration) -> u64 {
        estimate(model, &RequestCounts::of_message(text), NOTHING, calibration).best
    }

    /// What a model's bills for these texts would have taught, each seen five times.
    fn learned<'a>(corpus: &(impl Iterator<Item = &'a (Sample, TrueCounts)> + Clone)) -> Calibration {
        let mut calibration = Calibration::default();
        for model in MODELS {
            for (sample, counts) in std::iter::repeat_n(corpus.clone(), 5).flatten() {
                let text = TextCounts::of(&sample.text);
                let tokens = TokenizerFamily::of_model(model).tokens(&text);
                calibration.record(model, text.language(), tokens, truth(model, counts));
            }
        }
        calibration
    }

    /// The mean and the worst absolute error of one model on one kind of text, over the half that was not fitted.
    fn errors(
        corpus: &[(Sample, TrueCounts)],
        model: &str,
        kind: &str,
        calibration: &Calibration,
    ) -> (f64, f64) {
        let judged = || corpus.iter().filter(|(sample, _)| sample.kind == kind && !sample.is_for_fitting);
        let errors = judged().map(|(sample, counts)| {
            let (best, truth) = (best(model, &sample.text, calibration), truth(model, counts));
            best.abs_diff(truth) as f64 / truth as f64
        });
        (errors.clone().sum::<f64>() / judged().count() as f64, errors.fold(0.0, f64::max))
    }

    #[test]
    fn there_are_enough_texts_of_each_kind() {
        let corpus = corpus();
        for kind in KINDS {
            let of_kind = corpus.iter().filter(|(sample, _)| sample.kind == kind).count();
            assert!(of_kind >= 8, "{kind} has {of_kind} texts");
        }
    }

    #[test]
    fn the_mean_error_stays_below_a_fifth_and_below_an_eighth_once_calibrated() {
        let corpus = corpus();
        let fitted = corpus.iter().filter(|(sample, _)| sample.is_for_fitting);
        let (unlearned, learned) = (Calibration::default(), learned(&fitted));
        let mut broken = Vec::new();
        for kind in KINDS {
            let mut row = format!("{kind:8}");
            for model in MODELS {
                let (before, _) = errors(&corpus, model, kind, &unlearned);
                let (after, worst) = errors(&corpus, model, kind, &learned);
                let [before_percent, after_percent, worst] =
                    [before, after, worst].map(|error| error * 100.0);
                row.push_str(&format!(
                    "  {model} {before_percent:4.1} % {after_percent:4.1} % (worst {worst:4.1} %)"
                ));
                if before > MAX_ERROR || after > MAX_CALIBRATED_ERROR {
                    broken.push(format!("{kind}, {model}: {before:.3} before, {after:.3} after"));
                }
            }
            println!("{row}");
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn the_upper_bound_is_never_below_the_truth() {
        for (sample, counts) in corpus() {
            for model in MODELS {
                let estimate = estimate(
                    model,
                    &RequestCounts::of_message(&sample.text),
                    NOTHING,
                    &Calibration::default(),
                );
                assert!(estimate.upper >= truth(model, &counts), "{} {}", sample.kind, sample.name);
                assert!(estimate.best <= estimate.p95 && estimate.p95 <= estimate.upper);
            }
        }
    }

    #[test]
    fn the_careful_number_is_enough_for_nineteen_of_twenty() {
        let corpus = corpus();
        for calibration in [Calibration::default(), learned(&corpus.iter())] {
            for model in MODELS {
                let is_enough = |(sample, counts): &&(Sample, TrueCounts)| {
                    let request = RequestCounts::of_message(&sample.text);
                    estimate(model, &request, NOTHING, &calibration).p95 >= truth(model, counts)
                };
                let enough = corpus.iter().filter(is_enough).count();
                assert!(enough * 20 >= corpus.len() * 19, "{model}: {enough} of {}", corpus.len());
            }
        }
    }

    #[test]
    fn an_unknown_model_is_never_estimated_below_a_known_one() {
        for (sample, _) in corpus() {
            let tokens = best("some-model", &sample.text, &Calibration::default());
            for model in MODELS {
                assert!(tokens >= best(model, &sample.text, &Calibration::default()), "{}", sample.name);
            }
        }
    }

    /// Only a build with the tables can tell; `cargo xtask test` makes one for this.
    #[cfg(feature = "exact-tokens")]
    #[test]
    fn exact_counts_of_openai_are_the_stored_ones() {
        use seawall_core::tokens::exact_tokens;
        for (sample, counts) in corpus() {
            let exact = |family| exact_tokens(family, &sample.text);
            let stored = (Some(counts.openai), Some(counts.older_openai));
            assert_eq!(
                (exact(TokenizerFamily::OpenAi), exact(TokenizerFamily::OlderOpenAi)),
                stored,
                "{}",
                sample.name
            );
        }
        assert_eq!(exact_tokens(TokenizerFamily::OpenAi, ""), Some(0));
        assert_eq!(exact_tokens(TokenizerFamily::Claude, "text"), None);
        assert_eq!(exact_tokens(TokenizerFamily::Generic, "text"), None);
    }
}
