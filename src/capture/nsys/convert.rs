//! Conversion by the `nsys` that are installed, one after the other, until one can.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cache::{self, Cache};
use super::version::Version;
use super::{ConvertError, Kind, Options, by, find, full, is_database, is_report, unwritable};
use crate::capture::run::{ExitReason, last_lines, percentage, run};
use crate::capture::scratch::Scratch;
use crate::job::Progress;

/// `nsys --version` takes no longer.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// What is converted.
pub struct Original<'a> {
    pub kind: Kind,
    /// The version that recorded it, where that is told.
    pub recorded: Option<Version>,
    /// Absolute, so that it cannot be taken for an option.
    pub path: &'a Path,
}

/// An `nsys` that may be able to convert.
struct Able<'a> {
    version: Version,
    nsys: &'a PathBuf,
    /// What makes a report of raw data first.
    importer: Option<PathBuf>,
}

/// Why there is none: the newest of those that are too old, the first without an importer, and the first without a
/// version.
#[derive(Default)]
struct Unable<'a> {
    too_old: Option<(Version, &'a PathBuf)>,
    no_importer: Option<&'a PathBuf>,
    mute: Option<&'a PathBuf>,
}

/// Makes the export with the first of the candidates that can; returns its path and who made it.
pub fn convert(
    original: &Original<'_>,
    cache: &Cache,
    candidates: &[PathBuf],
    options: &Options,
    progress: &Progress,
) -> Result<(PathBuf, String), ConvertError> {
    let recorded = original.recorded;
    let (mut able, mut unable) = (Vec::new(), Unable::default());
    progress.set_phase("Asking nsys for its version");
    for nsys in candidates {
        let importer = (original.kind == Kind::Raw).then(|| find::importer(nsys));
        match ask_version(nsys, cache, progress)? {
            None => unable.mute = unable.mute.or(Some(nsys)),
            Some(version) if recorded.is_some_and(|recorded| !version.reads(recorded)) => {
                unable.too_old = unable.too_old.max(Some((version, nsys)));
            }
            Some(_) if importer == Some(None) => unable.no_importer = unable.no_importer.or(Some(nsys)),
            Some(version) => able.push(Able { version, nsys, importer: importer.flatten() }),
        }
    }
    // Stable, so that of equal ones the first found stays first.
    able.sort_by_key(|able| (Some(able.version) != recorded, Reverse(able.version)));
    let known: Vec<String> = candidates.iter().map(|nsys| cache::identity(nsys)).collect();
    let mut failures = Vec::new();
    for able in able {
        let converter = format!("nsys {}{}", able.version, by(able.nsys));
        progress.set_phase(&format!("Converting with nsys {}", able.version.short()));
        let work = cache.scratch().map_err(|why| unwritable(cache.root(), why))?;
        match export(&able, original, &work, cache, options, progress) {
            Ok(()) => {
                let kept = cache.keep(work, &converter, &known).map_err(|why| unwritable(cache.root(), why))?;
                return Ok((kept, converter));
            }
            Err(ConvertError::Failed(why)) => failures.push(why),
            Err(error) => return Err(error),
        }
    }
    Err(ConvertError::Failed(match failures[..] {
        [] => why_not(original, &unable, options),
        _ => failures.join("\n"),
    }))
}

/// What the file is, why nothing here can convert it, and what to do: sentences.
fn why_not(original: &Original<'_>, unable: &Unable<'_>, options: &Options) -> String {
    let why = match *unable {
        Unable { no_importer: Some(nsys), .. } => format!("the nsys found here has no QdstrmImporter{}", by(nsys)),
        Unable { too_old: Some((version, nsys)), .. } => {
            format!("the newest nsys found here is {}, too old to read it{}", version.short(), by(nsys))
        }
        Unable { mute: Some(nsys), .. } => format!("the nsys found here does not report its version{}", by(nsys)),
        Unable { .. } => format!("no nsys was found here (looked in {})", options.search.described()),
    };
    let version = original.recorded.map(|version| format!(" {}", version.short())).unwrap_or_default();
    let unfinished = if original.kind == Kind::Raw { ", which made no report of it" } else { "" };
    let what = original.kind.name();
    format!("This is {what} of Nsight Systems{version}{unfinished}, and {why}. {}", what_to_run(original))
}

/// Advice for users without a suitable `nsys`.
fn what_to_run(original: &Original<'_>) -> String {
    let (path, of_original) = (original.path, original.recorded);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let is_newer = |made: &Path| modified(made).is_some_and(|made| modified(path).is_some_and(|of| made >= of));
    let [export, report] = ["sqlite", "nsys-rep"].map(|extension| path.with_extension(extension));
    let made = [(&export, is_database(&export)), (&report, original.kind == Kind::Raw && is_report(&report))];
    // A report may itself have such a name.
    if let Some((made, _)) = made.into_iter().find(|(made, is_whole)| *is_whole && is_newer(made)) {
        let made = made.file_name().unwrap_or_default().to_string_lossy();
        return format!("Beside it lies {made}, which is newer: open that file");
    }
    // An importer is made for the raw data of its own version.
    let later = if original.kind == Kind::Raw { "" } else { " or newer" };
    let at_least = of_original.map_or(String::new(), |version| format!(" {}{later}", version.short()));
    let (program, extension) = match original.kind {
        Kind::Report => ("nsys export --type sqlite --output", "sqlite"),
        Kind::Raw => ("QdstrmImporter --output-file", "nsys-rep"),
    };
    let output = Path::new(&*name).with_extension(extension);
    let output =
        if output == Path::new(&*name) { output.with_extension(format!("export.{extension}")) } else { output };
    let [output, name] = [&output.to_string_lossy(), &name].map(|text| quoted(text));
    let (input, place) = match original.kind {
        Kind::Report => ("", ""),
        Kind::Raw => ("--input-file ", ", whose QdstrmImporter lies in its folder host-linux-x64"),
    };
    format!(
        "Where Nsight Systems{at_least} is installed{place}, run `{program} {output} {input}{name}` and open {output}"
    )
}

/// Text as a POSIX shell takes it for one word, for the user to copy.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+,:@%".contains(c);
    let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    match text.chars().all(is_plain) && !text.starts_with('-') {
        true => text,
        false if text.starts_with('-') => format!("'./{}'", text.replace('\'', r"'\''")),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// What `nsys --version` says; nothing if it fails or says no version.
fn ask_version(nsys: &Path, cache: &Cache, progress: &Progress) -> Result<Option<Version>, ConvertError> {
    let work = cache.scratch().map_err(|why| unwritable(cache.root(), why))?;
    let mut command = Command::new(nsys);
    command.arg("--version");
    let end = run(&mut command, &work, |elapsed| elapsed < VERSION_LIMIT && !progress.is_cancelled());
    match end {
        _ if progress.is_cancelled() => Err(ConvertError::Cancelled),
        Ok(ExitReason::Exited(status)) if status.success() => Ok(Version::in_answer(&last_lines(&work.log()))),
        // A program that does not start is not nsys; one that could not write could not tell.
        _ => work.has_room().map(|()| None).map_err(|why| unwritable(cache.root(), why)),
    }
}

/// Makes the export in `work`, of raw data by way of a report.
fn export(
    able: &Able<'_>,
    original: &Original<'_>,
    work: &Scratch,
    cache: &Cache,
    options: &Options,
    progress: &Progress,
) -> Result<(), ConvertError> {
    let place = (work, cache.root());
    let export = work.path().join(cache.name());
    let report = export.with_extension("nsys-rep");
    if let Some(importer) = &able.importer {
        let mut command = Command::new(importer);
        command.arg("--input-file").arg(original.path).arg("--output-file").arg(&report);
        let names = ["The import of the raw data", "report"];
        made(&mut command, (&report, is_report), names, place, options, progress)?;
    }
    let read = if able.importer.is_some() { &report } else { original.path };
    let mut command = Command::new(able.nsys);
    command.args(["export", "--type", "sqlite", "--force-overwrite", "true", "--output"]).arg(&export).arg(read);
    made(&mut command, (&export, is_database), ["The export of the report", "database"], place, options, progress)?;
    if able.importer.is_some() {
        // The export says all of it; the cache has room for others.
        std::fs::remove_file(&report)?;
    }
    Ok(())
}

/// Runs a program that makes one file.
///
/// * `output`: the file, and whether it is what was to be made.
/// * `names`: what the program does, and what it makes.
/// * `place`: where it works, and in which folder there must be room.
fn made(
    command: &mut Command,
    (output, is_whole): (&Path, fn(&Path) -> bool),
    [doing, what]: [&str; 2],
    (work, root): (&Scratch, &Path),
    options: &Options,
    progress: &Progress,
) -> Result<(), ConvertError> {
    let log = work.log();
    progress.set_done(0);
    progress.set_total(100);
    let mut seen = ((0, 0), Duration::ZERO);
    let mut has_hung = false;
    let end = run(command, work, |elapsed| {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
        let sizes = (size(output), size(&log));
        if sizes != seen.0 {
            seen = (sizes, elapsed);
            progress.set_done(percentage(&log).unwrap_or(0));
        }
        has_hung = elapsed.saturating_sub(seen.1) > options.patience;
        !has_hung && !progress.is_cancelled()
    })?;
    let program = Path::new(command.get_program()).display();
    let failed = |what: String| {
        let said = last_lines(&log);
        let said = if said.is_empty() { "It said nothing".to_owned() } else { format!("It said:\n{said}") };
        let full = work.has_room().err().map(|why| format!(". Perhaps since {}", full(root, &why)));
        let full = full.unwrap_or_default();
        Err(ConvertError::Failed(format!("{doing} by {program} {what}{full}\n{said}")))
    };
    match end {
        ExitReason::Stopped if has_hung => {
            failed(format!("made no progress for {} s and was ended", options.patience.as_secs()))
        }
        ExitReason::Stopped => Err(ConvertError::Cancelled),
        ExitReason::Flooded => failed("wrote messages without end and was ended".to_owned()),
        ExitReason::Exited(status) if !status.success() => failed(format!("failed ({status})")),
        ExitReason::Exited(_) if !is_whole(output) => failed(format!("wrote no {what}")),
        ExitReason::Exited(_) => Ok(()),
    }
}
