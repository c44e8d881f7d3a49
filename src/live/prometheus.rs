//! Gauges for Prometheus, over HTTP: answers `GET /metrics` and nothing else.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
pub use std::net::SocketAddr;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Monitor;
use super::history::Store;
use super::metric::Metric;
use super::monitor::Shared;
use crate::job;

/// Where gauges are served unless an address is given: this machine alone, at the port that guides use.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8000";

/// The most bytes of a request; a scrape has a few hundred.
const MAX_REQUEST: usize = 8 << 10;
/// The longest time that one client may take; tests may be paused.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 2 });
/// The most clients at once; one more sends the longest waiting away.
const MAX_CLIENTS: usize = 64;
/// How often it is looked for a client, and for what clients that are there send and take.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_AT_CLIENTS: Duration = Duration::from_millis(5);

/// A server under way. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Server {
    /// Serves what the monitor knows.
    ///
    /// Errors: the address cannot be listened at, for instance since another program does.
    pub fn start(monitor: &Monitor, address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ip = address.ip();
        let (shared, seen_by_work) = (Arc::clone(monitor.shared()), Arc::clone(&is_over));
        // A panic ends the server alone.
        job::start("prometheus", move || serve(&listener, ip, &shared, &seen_by_work), |_| {})?;
        Ok(Self { address, is_over })
    }

    /// With the port that was chosen where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn serve(listener: &TcpListener, ip: IpAddr, shared: &Shared, is_over: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::new();
    while !is_over.load(Ordering::Relaxed) && !shared.is_over() {
        // A client that goes away does not concern the others.
        clients.retain_mut(|client| client.go_on(ip, shared).is_ok_and(|has_ended| !has_ended));
        match listener.accept() {
            Ok((stream, _)) => {
                if clients.len() == MAX_CLIENTS {
                    clients.remove(0);
                }
                clients.extend(Client::new(stream).ok());
            }
            Err(_) => std::thread::sleep(if clients.is_empty() { LOOK } else { LOOK_AT_CLIENTS }),
        }
    }
}

/// One that has connected.
struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// What it has not taken yet, once the request is there.
    answer: Option<Vec<u8>>,
}

impl Client {
    fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until: Instant::now() + PATIENCE, request: Vec::new(), answer: None })
    }

    /// Reads and writes what can be without waiting; whether it is over.
    ///
    /// Errors: the client went away, or took too long.
    fn go_on(&mut self, ip: IpAddr, shared: &Shared) -> std::io::Result<bool> {
        match self.talk(ip, shared) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < self.until => Ok(false),
            done => done.map(|()| true),
        }
    }

    fn talk(&mut self, ip: IpAddr, shared: &Shared) -> std::io::Result<()> {
        if self.answer.is_none() {
            self.read()?;
        }
        let (stream, request) = (&mut self.stream, &self.request);
        let answer = self.answer.get_or_insert_with(|| answer(request, ip, shared));
        while !answer.is_empty() {
            let n = stream.write(answer)?;
            answer.drain(..n);
        }
        stream.shutdown(std::net::Shutdown::Both)
    }

    /// Reads until the request is whole, too long, or cut off by the client.
    fn read(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 1024];
        while !self.request.windows(4).any(|end| end == b"\r\n\r\n") && self.request.len() <= MAX_REQUEST {
            match self.stream.read(&mut buffer)? {
                0 => return Ok(()),
                n => self.request.extend_from_slice(&buffer[..n]),
            }
        }
        Ok(())
    }
}

fn answer(request: &[u8], ip: IpAddr, shared: &Shared) -> Vec<u8> {
    let (status, body) = match judge(request, ip) {
        Ok(()) => ("200 OK", metrics(&shared.lock())),
        Err(status) => (status, format!("{status}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Whether the request is the one that is answered.
///
/// * `ip`: where the server listens.
///
/// Errors: the status of the refusal.
fn judge(request: &[u8], ip: IpAddr) -> Result<(), &'static str> {
    if request.len() > MAX_REQUEST {
        return Err("431 Request Header Fields Too Large");
    }
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut parts = std::str::from_utf8(line).unwrap_or_default().split(' ');
    let (method, target, version) = (parts.next(), parts.next(), parts.next());
    if parts.next().is_some() || !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err("400 Bad Request");
    }
    if method != Some("GET") {
        return Err("405 Method Not Allowed");
    }
    match target.and_then(|target| target.split('?').next()) {
        Some("/metrics") if ip.is_unspecified() || is_asked_by_address(request) => Ok(()),
        Some("/metrics") => {
            Err("421 Misdirected Request: ask by address or as localhost, or listen at 0.0.0.0 or [::]")
        }
        _ => Err("404 Not Found"),
    }
}

/// Whether the client asks for an address or for this machine, not for a name that another may have pointed here: a
/// page in a browser may ask under the name of its own server, which then resolves to this one. Browsers always send
/// the name.
fn is_asked_by_address(request: &[u8]) -> bool {
    let head = String::from_utf8_lossy(request);
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut hosts = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host")).map(|(_, host)| host.trim());
    hosts.all(|host| {
        let has_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| has_port(port)).map_or(host, |(name, _)| name);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
    })
}

/// Every gauge in the text format of Prometheus. What is not supported, or of a GPU that is lost, is absent.
pub fn metrics(store: &Store) -> String {
    let mut out = String::new();
    for &metric in Metric::ALL {
        let spec = metric.spec();
        let known = store.devices.iter().filter_map(|device| Some((device, device.value(metric)?)));
        for (i, (device, value)) in known.enumerate() {
            if i == 0 {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "# HELP {} {}\n# TYPE {} gauge", spec.gauge, spec.help, spec.gauge);
            }
            let labels = [("gpu_id", &device.info.id), ("name", &device.info.name), ("uuid", &device.info.uuid)];
            let labels = labels.map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).join(",");
            let _ = writeln!(out, "{}{{{labels}}} {value}", spec.gauge);
        }
    }
    out
}

/// A label's value as the format wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::source::{Absent, DeviceInfo, Sample};

    fn monitor() -> Monitor {
        let monitor = Monitor::new(Vec::new());
        monitor.shared().change(|store| {
            let info = DeviceInfo { id: "0".to_owned(), name: "A \"B\"".to_owned(), ..DeviceInfo::default() };
            store.adopt("NVIDIA", &[info]);
            let mut sample = Sample::at(1);
            sample.set(Metric::Utilization, Ok(45.0));
            sample.set(Metric::MemoryUsed, Ok(1024.0));
            sample.set(Metric::Power, Err(Absent::NotSupported));
            store.apply(0, sample);
        });
        monitor
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn gauges_have_the_names_that_guides_use() {
        let monitor = monitor();
        let text = metrics(&monitor.shared().lock());
        let labels = "{gpu_id=\"0\",name=\"A \\\"B\\\"\",uuid=\"\"}";
        assert!(text.contains(&format!("gpu_utilization_percent{labels} 45\n")), "{text}");
        assert!(text.contains("# TYPE gpu_memory_used_bytes gauge\n"), "{text}");
        assert!(!text.contains("gpu_power_watts"), "{text}");
    }

    #[test]
    fn silent_clients_do_not_keep_others_waiting() {
        let monitor = monitor();
        let server = Server::start(&monitor, "127.0.0.1:0".parse().unwrap()).unwrap();
        let silent: Vec<TcpStream> =
            (0..3 * MAX_CLIENTS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        // The first ones were sent away for those that came later, which may still ask.
        let mut sent_away = &silent[0];
        assert!(sent_away.read(&mut [0]).is_ok_and(|n| n == 0));
        let mut latest = silent.last().unwrap();
        latest.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        latest.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.matches("200 OK").count(), 2);
    }

    #[test]
    fn pages_in_a_browser_do_not_get_an_answer_under_a_name_of_theirs() {
        let judged = |ip: &str, host: &str| {
            judge(format!("GET /metrics HTTP/1.1\r\nhost:{host}\r\n\r\n").as_bytes(), ip.parse().unwrap())
        };
        for host in [" localhost", "LOCALHOST:9", " 127.0.0.1:8000", "[::1]:8000 ", "[::1]", "192.168.1.5"] {
            assert_eq!(judged("127.0.0.1", host), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert!(judged("127.0.0.1", host).unwrap_err().starts_with("421"), "{host}");
            assert!(judged("192.168.1.5", host).is_err());
            // Who listens everywhere is asked by any name.
            assert_eq!((judged("0.0.0.0", host), judged("::", host)), (Ok(()), Ok(())));
        }
        assert!(judged("::1", "localhost\r\nHost: evil.example").is_err());
        assert_eq!(judge(b"GET /metrics HTTP/1.0\r\n\r\n", IpAddr::from([127, 0, 0, 1])), Ok(()));
    }

    #[test]
    fn only_scrapes_are_answered() {
        let monitor = monitor();
        let server = Server::start(&monitor, "127.0.0.1:0".parse().unwrap()).unwrap();
        let at = server.address();
        let answer = ask(at, b"GET /metrics HTTP/1.1\r\nHost: localhost:8000\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("gpu_utilization_percent"), "{answer}");
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"nonsense\r\n\r\n", "400"),
            (b"GET /metrics HTTP/1.1\r\n", "400"),
        ] {
            let mut client = TcpStream::connect(at).unwrap();
            client.write_all(request).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            let is_cut = !request.ends_with(b"\r\n\r\n");
            assert!(is_cut || answer.contains(status), "{answer}");
        }
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &vec![b'a'; MAX_REQUEST]].concat();
        assert!(ask(at, &long).contains("431"));
    }
}
