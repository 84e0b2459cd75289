//! Finds the library. PROMPTCACHE_LIB_DIR is the folder of libpromptcache.so, and
//! PROMPTCACHE_INCLUDE_DIR that of promptcache.h, which only the test of the layout needs. Without
//! them, pkg-config is asked. PROMPTCACHE_STATIC=1 links libpromptcache.a and what it needs.
use std::env;
use std::process::Command;

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
    let output = Command::new(&program)
        .args(arguments)
        .arg("promptcache")
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn found_by_pkg_config(fixed: bool) -> Result<(), String> {
    let version = format!("--atleast-version={}", env!("CARGO_PKG_VERSION"));
    pkg_config(&["--print-errors", &version])
        .map_err(|error| format!("version {} is needed. {error}", env!("CARGO_PKG_VERSION")))?;
    let mut asked = vec!["--libs"];
    if fixed {
        asked.push("--static");
    }
    let folder = pkg_config(&["--variable=libdir"])?;
    println!("cargo:rustc-link-search=native={folder}");
    for word in pkg_config(&asked)?.split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if word == "-lpromptcache" && fixed {
            println!("cargo:rustc-link-lib=static=promptcache");
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
    let include = pkg_config(&["--variable=includedir"])?;
    println!("cargo:rustc-env=PROMPTCACHE_INCLUDE={include}");
    println!("cargo:include={include}");
    Ok(())
}

fn main() {
    for name in ["LIB_DIR", "INCLUDE_DIR", "STATIC"] {
        println!("cargo:rerun-if-env-changed=PROMPTCACHE_{name}");
    }
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let fixed = env::var("PROMPTCACHE_STATIC").map_or(false, |value| value == "1");
    if env::var_os("DOCS_RS").is_some() {
        return; // documentation is made without the library
    }
    if let Ok(folder) = env::var("PROMPTCACHE_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        let kind = if fixed { "static" } else { "dylib" };
        println!("cargo:rustc-link-lib={kind}=promptcache");
        if let Ok(include) = env::var("PROMPTCACHE_INCLUDE_DIR") {
            println!("cargo:rustc-env=PROMPTCACHE_INCLUDE={include}");
        }
    } else if let Err(error) = found_by_pkg_config(fixed) {
        eprintln!(
            "promptcache-sys: libpromptcache was not found: {error}\n\
             Install it (cmake --install BUILD), and set PKG_CONFIG_PATH if that is not where \
             pkg-config looks; or set PROMPTCACHE_LIB_DIR to the folder of libpromptcache.so."
        );
        std::process::exit(1);
    }
}
