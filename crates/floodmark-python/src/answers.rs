//! Answers other than the report as Python objects: text, HTML and the documented JSON.

use pyo3::prelude::*;

use crate::errors::wrong_argument;

macro_rules! answers {
    ($($name:ident($answer:ty): $of:literal;)*) => {
        $(
            #[doc = concat!("The answer of `", $of, "`.")]
            #[pyclass(frozen, module = "floodmark._core")]
            pub(crate) struct $name(pub(crate) $answer);

            #[pymethods]
            impl $name {
                fn __str__(&self) -> String {
                    floodmark_text::text_table::render(&self.0)
                }

                fn _repr_html_(&self) -> String {
                    floodmark_text::html::render_html(&self.0)
                }

                /// The documented JSON.
                fn to_json(&self) -> PyResult<String> {
                    serde_json::to_string(&self.0).map_err(wrong_argument)
                }
            }
        )*
    };
}

answers! {
    Diff(floodmark_analysis::Diff): "Trace.diff";
    Leaks(floodmark_analysis::Leaks): "Trace.leaks";
    Ledger(floodmark_analysis::Ledger): "Trace.ledger";
    Simulation(floodmark_analysis::Simulation): "Trace.simulate";
    Oom(floodmark_analysis::OomReport): "Trace.oom";
    OomMessages(floodmark_analysis::OomMessages): "explain_oom";
    Advice(floodmark_analysis::AdviceReport): "Trace.advise";
    Estimate(floodmark_analysis::Estimate): "Trace.estimate";
}
