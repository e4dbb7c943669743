//! What requests to the API server cost, and that it does not depend on how many objects there are.
//!
//! The servers are real: processes of their own, spoken to over TLS. CPU time is the server's alone.

mod load;
mod report;

use anyhow::{Context, Result, ensure};

use crate::machine;
use crate::servers::{self, Program, Server};
use load::Load;
use report::Column;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many objects there are, from few to many.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000")]
    objects: Vec<usize>,
    /// How many write at the same time.
    #[arg(long, value_delimiter = ',', default_value = "16,64")]
    writers: Vec<usize>,
    /// About the size of an object as JSON.
    #[arg(long, default_value_t = 1300)]
    object_bytes: usize,
    #[command(flatten)]
    servers: servers::Choice,
    /// Up to how many objects the comparison goes.
    #[arg(long, default_value_t = 10_000)]
    peer_objects: usize,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    ensure!(!arguments.objects.is_empty(), "--objects names no size");
    println!("{}\n", machine::describe());
    let rhumb = arguments.servers.rhumb()?;
    let columns = measure(&arguments, &rhumb, usize::MAX).await?;
    report::print(&rhumb, &columns);
    let Some(peer) = arguments.servers.peer() else {
        return Ok(());
    };
    let peers = measure(&arguments, &peer, arguments.peer_objects).await?;
    report::print(&peer, &peers);
    report::compare(&columns, &peers);
    Ok(())
}

/// One column for each number of objects.
async fn measure(
    arguments: &Arguments,
    program: &Program,
    objects_max: usize,
) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    let sizes = arguments.objects.iter().copied();
    for objects in sizes.filter(|objects| *objects <= objects_max) {
        eprintln!("{program}, {objects} objects");
        columns.push(column(arguments, program, objects).await?);
    }
    Ok(columns)
}

async fn column(arguments: &Arguments, program: &Program, objects: usize) -> Result<Column> {
    let (last, first) = arguments
        .writers
        .split_last()
        .context("--writers names no number")?;
    let mut column = Column::new(objects);
    for &writers in first {
        let server = Server::start(program).await?;
        let load = Load::new(&server, arguments.object_bytes);
        let figure = load.create(objects, writers).await?;
        column.add(format!("create, {writers} writers"), figure);
    }
    // The last one stays for everything else.
    let server = Server::start(program).await?;
    column.first_start = Some(server.ready_in);
    tokio::time::sleep(load::QUIET).await;
    let idle = server.usage()?;
    column.idle_bytes = Some(idle.resident_bytes);
    let load = Load::new(&server, arguments.object_bytes);
    let figure = load.create(objects, *last).await?;
    column.add(format!("create, {last} writers"), figure);
    tokio::time::sleep(load::QUIET).await;
    let grown = server.usage()?.resident_bytes;
    column.bytes_per_object =
        Some(grown.saturating_sub(idle.resident_bytes) as f64 / objects as f64);
    column.json_bytes = Some(load.json_bytes().await?);
    column.add("get".into(), load.get(objects).await?);
    column.add(
        "update, with 10 watchers of everything".into(),
        load.watched_updates(objects).await?,
    );
    for (name, query) in load::LISTS {
        column.add((*name).into(), load.list(query).await?);
    }
    column.add("list in pages of 500".into(), load.list_in_pages().await?);
    let again = server.start_again().await?;
    column.next_start = Some(again.ready_in);
    Ok(column)
}
