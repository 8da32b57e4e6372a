//! JSON, as much of it as the program needs: values are read, and written again.

use std::fmt;

const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As written: what is only passed on need not be rounded.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn text(value: &str) -> Json {
        Json::Text(value.to_string())
    }

    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Json::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
        )
    }

    /// The value at a path of names and, for lists, numbers; null where there is none.
    pub fn at(&self, path: &[&str]) -> &Json {
        path.iter().fold(self, |value, name| match value {
            Json::Object(fields) => fields
                .iter()
                .find(|(own, _)| own == name)
                .map_or(&Json::Null, |(_, one)| one),
            Json::List(items) => name
                .parse::<usize>()
                .ok()
                .and_then(|n| items.get(n))
                .unwrap_or(&Json::Null),
            _ => &Json::Null,
        })
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    pub fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader {
            bytes: text.as_bytes(),
            at: 0,
        };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == reader.bytes.len() {
            Ok(value)
        } else {
            Err(format!("something follows the JSON at {}", reader.at))
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => write!(out, "null"),
            Json::Bool(value) => write!(out, "{value}"),
            Json::Number(digits) => write!(out, "{digits}"),
            Json::Text(text) => quote(text, out),
            Json::List(items) => {
                write!(out, "[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if n == 0 { "" } else { "," })?;
                }
                write!(out, "]")
            }
            Json::Object(fields) => {
                write!(out, "{{")?;
                for (n, (name, value)) in fields.iter().enumerate() {
                    write!(out, "{}", if n == 0 { "" } else { "," })?;
                    quote(name, out)?;
                    write!(out, ":{value}")?;
                }
                write!(out, "}}")
            }
        }
    }
}

fn quote(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "\"")?;
    for one in text.chars() {
        match one {
            '"' => write!(out, "\\\"")?,
            '\\' => write!(out, "\\\\")?,
            one if one < ' ' => write!(out, "\\u{:04x}", one as u32)?,
            one => write!(out, "{one}")?,
        }
    }
    write!(out, "\"")
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(wanted.as_bytes());
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        self.space();
        if self.takes(wanted) {
            Ok(())
        } else {
            Err(format!("expected {wanted:?} at {}", self.at))
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the JSON is nested over {MAX_DEPTH} deep"));
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'{') => {
                let mut fields = Vec::new();
                self.list("{", "}", |reader| {
                    reader.space();
                    let name = reader.string()?;
                    reader.expect(":")?;
                    fields.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::Object(fields))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.list("[", "]", |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Json::List(items))
            }
            _ if self.takes("null") => Ok(Json::Null),
            _ if self.takes("true") => Ok(Json::Bool(true)),
            _ if self.takes("false") => Ok(Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn list(
        &mut self,
        begin: &str,
        end: &str,
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect(begin)?;
        self.space();
        if self.takes(end) {
            return Ok(());
        }
        loop {
            item(self)?;
            self.space();
            if self.takes(end) {
                return Ok(());
            }
            self.expect(",")?;
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        while matches!(
            self.bytes.get(self.at),
            Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
        ) {
            self.at += 1;
        }
        let digits = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
        match digits.parse::<f64>() {
            Ok(_) => Ok(Json::Number(digits)),
            Err(_) => Err(format!("expected a value at {start}")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.takes("\"") {
            return Err(format!("expected a text at {}", self.at));
        }
        let mut text = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at).ok_or("the text has no end")?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(text).map_err(|error| error.to_string()),
                b'\\' => text.extend(self.escaped()?.to_string().bytes()),
                byte => text.push(byte),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let byte = *self.bytes.get(self.at).ok_or("the text has no end")?;
        self.at += 1;
        Ok(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let high = self.unit()?;
                let low = if (0xd800..0xdc00).contains(&high) && self.takes("\\u") {
                    Some(self.unit()?)
                } else {
                    None
                };
                let units = [high, low.unwrap_or(0)];
                let pair = &units[..if low.is_some() { 2 } else { 1 }];
                char::decode_utf16(pair.iter().copied())
                    .next()
                    .and_then(Result::ok)
                    .unwrap_or('\u{fffd}')
            }
            other => other as char,
        })
    }

    fn unit(&mut self) -> Result<u16, String> {
        let digits = self
            .bytes
            .get(self.at..self.at + 4)
            .ok_or("the text has no end")?;
        self.at += 4;
        let digits = std::str::from_utf8(digits).map_err(|error| error.to_string())?;
        u16::from_str_radix(digits, 16).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn what_is_read_is_written_again() {
        for text in [
            r#"{"a":[1,-2.5e3,true,null],"b":{"c":"d"}}"#,
            "[]",
            "{}",
            r#""x""#,
        ] {
            assert_eq!(Json::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(
            Json::parse(r#""\u00e4\n\ud83d\ude00\"\\""#).unwrap(),
            Json::text("ä\n😀\"\\")
        );
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            r#"{"a"}"#,
            "nul",
            r#""\u12"#,
            "1 2",
            &"[".repeat(10_000),
        ] {
            assert!(Json::parse(text).is_err(), "{text:.20}");
        }
    }
}
