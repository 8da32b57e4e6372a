//! An agent that knows of OpenAI and of a server with tools, and of nothing else: by variables of its environment.
//!
//! Its question comes by standard input; each line that it writes is a piece of its answer, as JSON. It uses the
//! standard library alone, so that it builds without a network; with crates it would be a third of this.

mod json;

use json::Json;
use std::env;
use std::io::{self, Read, Write};
use std::net::TcpStream;

const MAX_ROUNDS: usize = 20;

fn main() {
    if let Err(problem) = answer() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

/// Ask the model, call the tools that it wishes for, and write what it says in the end.
fn answer() -> Result<(), String> {
    let mut question = String::new();
    io::stdin()
        .read_to_string(&mut question)
        .map_err(|error| error.to_string())?;
    let tools = functions()?;
    let user = Json::object([
        ("role", Json::text("user")),
        ("content", Json::text(&question)),
    ]);
    let mut messages = vec![user];
    let url = format!("{}/chat/completions", variable("OPENAI_BASE_URL")?);
    for _ in 0..MAX_ROUNDS {
        let request = Json::object([
            ("model", Json::text("default")),
            ("messages", Json::List(messages.clone())),
            ("tools", Json::List(tools.clone())),
        ]);
        let said = post(&url, &request)?
            .at(&["choices", "0", "message"])
            .clone();
        let calls = said.at(&["tool_calls"]).items().to_vec();
        if calls.is_empty() {
            println!(
                "{}",
                Json::text(said.at(&["content"]).as_text().unwrap_or_default())
            );
            return Ok(());
        }
        messages.push(said);
        for call in &calls {
            messages.push(Json::object([
                ("role", Json::text("tool")),
                ("tool_call_id", call.at(&["id"]).clone()),
                ("content", Json::text(&result_of(call.at(&["function"]))?)),
            ]));
        }
    }
    Err(format!("the model asked for tools in {MAX_ROUNDS} rounds"))
}

/// The tools of the server, as functions for the model.
fn functions() -> Result<Vec<Json>, String> {
    let listed = mcp("tools/list", Json::object([]))?;
    Ok(listed.at(&["tools"]).items().iter().map(function).collect())
}

fn function(tool: &Json) -> Json {
    let function = Json::object([
        ("name", tool.at(&["name"]).clone()),
        ("description", tool.at(&["description"]).clone()),
        ("parameters", tool.at(&["inputSchema"]).clone()),
    ]);
    Json::object([("type", Json::text("function")), ("function", function)])
}

/// Call a tool of the server. What the model got wrong is answered to the model.
fn result_of(wish: &Json) -> Result<String, String> {
    let arguments = match Json::parse(wish.at(&["arguments"]).as_text().unwrap_or("{}")) {
        Ok(arguments) => arguments,
        Err(problem) => return Ok(format!("error: the arguments are not JSON: {problem}")),
    };
    let params = Json::object([
        ("name", wish.at(&["name"]).clone()),
        ("arguments", arguments),
    ]);
    let result = mcp("tools/call", params)?;
    let texts: Vec<&str> = result
        .at(&["content"])
        .items()
        .iter()
        .filter_map(|part| part.at(&["text"]).as_text())
        .collect();
    Ok(texts.join("\n"))
}

/// Send a request to the server with tools (MCP, streamable HTTP), and return its result.
fn mcp(method: &str, params: Json) -> Result<Json, String> {
    let request = Json::object([
        ("jsonrpc", Json::text("2.0")),
        ("id", Json::Number("1".to_string())),
        ("method", Json::text(method)),
        ("params", params),
    ]);
    let answer = post(&variable("AGENT_MCP_URL")?, &request)?;
    match answer.at(&["error", "message"]).as_text() {
        Some(problem) => Err(format!("{method}: {problem}")),
        None => Ok(answer.at(&["result"]).clone()),
    }
}

/// Send JSON by HTTP/1.0, where an answer ends with its connection. A stream's event is read like a body.
fn post(url: &str, body: &Json) -> Result<Json, String> {
    let place = url
        .strip_prefix("http://")
        .ok_or(format!("{url} is no http address"))?;
    let (host, path) = place.split_once('/').ok_or(format!("{url} has no path"))?;
    let body = body.to_string();
    let head = format!(
        "POST /{path} HTTP/1.0\r\nhost: {host}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        variable("OPENAI_API_KEY")?,
        body.len()
    );
    let mut answer = String::new();
    TcpStream::connect(host)
        .and_then(|mut stream| {
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            stream.read_to_string(&mut answer)
        })
        .map_err(|error| format!("{url}: {error}"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or(format!("{url} gave no HTTP answer"))?;
    let data = body
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap_or(body);
    if head.split(' ').nth(1) != Some("200") {
        let status = head.lines().next().unwrap_or_default();
        let problem = Json::parse(data).ok();
        let text = problem
            .as_ref()
            .and_then(|found| found.at(&["error", "message"]).as_text())
            .unwrap_or(body);
        return Err(format!("{url}: {status}: {text}"));
    }
    Json::parse(data)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set"))
}
