//! A count and its noun.

/// `1,234 events`.
pub fn plural(count: u64, noun: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let ending = if count == 1 { "" } else { "s" };
    format!("{text} {noun}{ending}")
}
