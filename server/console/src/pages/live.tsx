// The live page: the current load of the daemons, and the regions that will be full first.
import { useEffect, useMemo, useState } from "preact/hooks";
import { admin, regions } from "../api/calls.ts";
import { hearFigures } from "../api/live.ts";
import type { Refused } from "../api/refused.ts";
import { useApp } from "../app-state.ts";
import type { FiguresOfSecond, Status } from "../gen/kent/v1/admin_pb.ts";
import type { Region } from "../gen/kent/v1/regions_pb.ts";
import { bySource, joined, ofDaemon, timesOf } from "../lib/figures.ts";
import { format } from "../lib/format.ts";
import { mostUrgent, succeeded } from "../lib/fullest.ts";
import { spaceName, spaceOf, splitRegion } from "../lib/names.ts";
import { spacesOf } from "../lib/rights.ts";
import { untilFull } from "../map/words.ts";
import { linkTo } from "../router.ts";
import { Chart, ChartCard } from "../ui/chart.tsx";
import { useLoad } from "../ui/load.ts";
import { Facts, Mark, Table } from "../ui/parts.tsx";
import { Empty, Loaded, Problem } from "../ui/states.tsx";

const STATUS_MS = 5000;
const FULLEST_MS = 15_000;
const SOURCES_MOST = 4;
const SPACES_MOST = 8;
const FULLEST_MOST = 8;

/** The page. */
export function LivePage() {
  const round = useTicks(STATUS_MS);
  const status = useLoad((signal) => admin.getStatus({}, { signal }), [round]);
  const [seconds, setSeconds] = useState<FiguresOfSecond[]>([]);
  const [refused, setRefused] = useState<Refused>();
  useEffect(
    () =>
      hearFigures((news) => {
        setRefused(undefined);
        setSeconds((known) => joined(known, news));
      }, setRefused),
    [],
  );
  const gone = [refused, status.refused].find((one) => one?.kind === "unreachable");
  return (
    <div class="page">
      <header class="page-head">
        <h1>Live</h1>
        {status.value ? <State status={status.value} /> : !status.refused && <div class="bone in-head" />}
      </header>
      {gone && <Problem refused={gone} again={status.again} />}
      {refused?.kind === "no-permission" ? (
        <Problem refused={refused} />
      ) : (
        <>
          <Charts seconds={seconds} refused={refused} isStale={gone !== undefined} />
          {gone ? null : status.refused || status.value ? (
            <Loaded load={status} what="the state of the daemon">
              {(status) => <Daemons status={status} latest={seconds.at(-1)} />}
            </Loaded>
          ) : (
            <DaemonsLoading />
          )}
        </>
      )}
      {!gone && <Fullest />}
    </div>
  );
}

/** Returns a number that grows every `ms` milliseconds while the page is visible, until it is over. */
function useTicks(ms: number, isOver = false): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    if (isOver) return;
    const timer = setInterval(() => {
      if (!document.hidden) setTicks((before) => before + 1);
    }, ms);
    return () => clearInterval(timer);
  }, [ms, isOver]);
  return ticks;
}

function State({ status }: { status: Status }) {
  return status.version === "" ? null : (
    <p class="page-note">
      {status.ready ? <Mark kind="good">ready</Mark> : <Mark kind="warn">not ready: {status.reasons.join("; ")}</Mark>}
      <span class="quiet-text">
        kentd {status.version}
        {/* A user without the permission `operate` gets no uptime. */}
        {status.uptimeSeconds > 0n && `, up for ${format.duration(Number(status.uptimeSeconds))}`}
      </span>
    </p>
  );
}

const GRANTS = "Grants per second, by source";
const LATENCY = "Latency of grants";
const COMMITS = "Latency of commits in the store";

/** The charts. They are stale if the daemon cannot be reached: then the page says why. */
function Charts(props: { seconds: FiguresOfSecond[]; refused: Refused | undefined; isStale: boolean }) {
  const { seconds, refused, isStale } = props;
  const times = useMemo(() => timesOf(seconds), [seconds]);
  const grants = useMemo(() => bySource(seconds, SOURCES_MOST), [seconds]);
  const latency = useMemo(
    () => [
      ofDaemon(seconds, "p50", ({ p50Micros }) => p50Micros),
      ofDaemon(seconds, "p99", ({ p99Micros }) => p99Micros),
    ],
    [seconds],
  );
  const store = useMemo(() => [ofDaemon(seconds, "commit", ({ storeMicros }) => storeMicros)], [seconds]);
  if (seconds.length === 0) {
    return isStale ? null : refused ? <Problem refused={refused} /> : <ChartsLoading />;
  }
  const end = isStale ? times.at(-1) : undefined;
  return (
    <div class="charts">
      {grants.length > 0 ? (
        <Chart title={GRANTS} times={times} lines={grants} show={(value) => format.short(value)} isStale={isStale} />
      ) : (
        <ChartCard title={GRANTS} end={end}>
          <Empty
            title={
              end === undefined
                ? "No grants in the last fifteen minutes"
                : `No grants in the fifteen minutes before ${format.clock(end * 1000)}`
            }
          >
            <p class="quiet-text">
              Try <code>kent alloc uuidv7</code>
            </p>
          </Empty>
        </ChartCard>
      )}
      <Chart title={LATENCY} times={times} lines={latency} show={(value) => format.micros(value)} isStale={isStale} />
      <Chart title={COMMITS} times={times} lines={store} show={(value) => format.micros(value)} isStale={isStale} />
    </div>
  );
}

function ChartsLoading() {
  return (
    <div class="charts">
      <span class="hidden" role="status">
        Loading the figures
      </span>
      {[GRANTS, LATENCY, COMMITS].map((title) => (
        <ChartCard key={title} title={title}>
          <div class="bone" />
        </ChartCard>
      ))}
    </div>
  );
}

/** A replica, as described by the metrics of the latest second and by the status. */
interface Row {
  address: string;
  answering: boolean;
  version: string;
  slot: number | undefined;
  windowLeftMs: number | undefined;
  clockAheadMs: bigint | undefined;
  grants: number | undefined;
  identifiers: number | undefined;
}

function rowsOf(status: Status, latest: FiguresOfSecond | undefined): Row[] {
  const figures = (name: string) => latest?.replicas.find((one) => one.name === name || (name === "" && one.answering));
  const [slot] = status.slots;
  const notes = status.replicas.length > 0 ? status.replicas : [undefined];
  return notes.map((note) => {
    const own = note?.answering ?? true;
    const known = figures(note?.name ?? "");
    return {
      address: note?.address || known?.address || "this daemon",
      answering: own,
      version: note?.version ?? status.version,
      slot: note?.slot ?? known?.slot ?? (own ? slot?.slot : undefined),
      windowLeftMs: Number(known?.windowLeftMs ?? (own ? (slot?.windowLeftMs ?? 0n) : 0n)) || undefined,
      clockAheadMs: note?.clockAheadMs ?? known?.clockAheadMs,
      grants: known?.grants,
      identifiers: known?.identifiers,
    };
  });
}

function Daemons({ status, latest }: { status: Status; latest: FiguresOfSecond | undefined }) {
  const rows = rowsOf(status, latest);
  const { store, clock } = status;
  return (
    <>
      <section class="card">
        <h2>Replicas and slots</h2>
        <Table
          caption="Replicas and slots"
          rows={rows}
          keyOf={({ address }) => address}
          columns={[
            {
              title: "Daemon",
              cell: ({ address, answering }) => (
                <>
                  {address} {answering && rows.length > 1 && <Mark kind="plain">answers</Mark>}
                </>
              ),
            },
            { title: "Slot", number: true, cell: ({ slot }) => slot ?? "none" },
            {
              title: "Window left",
              number: true,
              cell: ({ windowLeftMs }) => (windowLeftMs === undefined ? "none" : format.duration(windowLeftMs / 1000)),
            },
            {
              title: "Clock ahead",
              number: true,
              cell: ({ clockAheadMs, answering }) =>
                answering ? "reference" : clockAheadMs === undefined ? "unknown" : `${format.whole(clockAheadMs)} ms`,
            },
            {
              title: "Grants/s",
              number: true,
              cell: ({ grants }) => (grants === undefined ? "" : format.short(grants)),
            },
            {
              title: "Identifiers/s",
              number: true,
              wide: true,
              cell: ({ identifiers }) => (identifiers === undefined ? "" : format.short(identifiers)),
            },
            { title: "Version", wide: true, cell: ({ version }) => version },
          ]}
        />
      </section>
      {store && clock && (
        <section class="card">
          <h2>Store and clock</h2>
          <Facts
            facts={[
              ["Store", `${store.kind} ${store.location}`],
              [
                "Commits, flushes, conflicts",
                [store.commits, store.flushes, store.conflicts].map((value) => format.whole(value)).join(", "),
              ],
              store.unreachable !== "" && ["Cannot be reached", store.unreachable],
              ["Clock", format.utc(Number(clock.unixNanos / 1_000_000n))],
              ["Clock steps", format.whole(clock.clockEpoch)],
              clock.quarantine && [
                "Clock not trusted",
                `${format.whole(clock.quarantine.aheadMs)} ms ahead: see kent clock`,
              ],
            ]}
          />
        </section>
      )}
    </>
  );
}

function DaemonsLoading() {
  return (
    <div class="loading-cards">
      <span class="hidden" role="status">
        Loading the state of the daemon
      </span>
      <section class="card">
        <h2>Replicas and slots</h2>
        <div class="bone of-table" />
      </section>
      <section class="card">
        <h2>Store and clock</h2>
        <div class="bone of-facts" />
      </section>
    </div>
  );
}

/** The regions that will be full first. */
function Fullest() {
  const { who } = useApp();
  const [isRefused, setIsRefused] = useState(false);
  const round = useTicks(FULLEST_MS, isRefused);
  const load = useLoad(
    async (signal) => {
      const listed = await regions.listSpaces({ pageSize: SPACES_MOST }, { signal });
      const names = new Set([...listed.spaces.map(({ name }) => spaceOf(name)), ...spacesOf(who.permissions, "read")]);
      // To a user without any permission, the daemon says which one is missing.
      const spaces = [...(names.size > 0 ? names : ["default"])].slice(0, SPACES_MOST);
      const lists = await Promise.allSettled(
        spaces.map((space) =>
          regions.listFullestRegions({ parent: spaceName(space), maxRegions: FULLEST_MOST }, { signal }),
        ),
      );
      const found = succeeded(lists).flatMap((list) => list.regions);
      const isAll = names.size <= spaces.length && listed.nextPageToken === "";
      return { filled: mostUrgent(found, FULLEST_MOST), isAll };
    },
    [round],
  );
  // Stop polling after a refusal, because each refusal is written to the audit log.
  useEffect(() => setIsRefused(load.refused?.kind === "no-permission"), [load.refused]);
  return (
    <section class="card">
      <h2>Fullest regions</h2>
      <Loaded load={load} what="the regions">
        {({ filled, isAll }) =>
          filled.length === 0 ? (
            <Empty title="No region has issued identifiers yet">
              <p>
                <a href={linkTo("map", ["default"])}>Open the map</a> to see the regions.
              </p>
            </Empty>
          ) : (
            <>
              <Table
                caption="Fullest regions"
                rows={filled}
                keyOf={({ region }) => region.name}
                columns={[
                  { title: "Region", cell: ({ region }) => <RegionLink region={region} /> },
                  {
                    title: "Issued",
                    cell: ({ share }) => (
                      <span class="fill-cell">
                        <meter class="fill" min={0} max={1} value={share} aria-label="Issued" />
                        {format.share(share)}
                      </span>
                    ),
                  },
                  { title: "Rate", number: true, wide: true, cell: ({ region }) => `${format.short(region.rate)}/s` },
                  {
                    title: "Time left",
                    number: true,
                    cell: ({ region }) => untilFull(region),
                  },
                ]}
              />
              {!isAll && <p class="quiet-text">These are the regions of the first {SPACES_MOST} spaces.</p>}
            </>
          )
        }
      </Loaded>
    </section>
  );
}

function RegionLink({ region: { name, sealedBy } }: { region: Region }) {
  const parts = splitRegion(name);
  if (!parts) return <>{name}</>;
  return (
    <>
      <a href={linkTo("region", [parts.space, parts.region])}>{parts.region}</a>
      {parts.space !== "default" && <span class="quiet-text"> in {parts.space}</span>}
      {sealedBy !== "" && (
        <>
          {" "}
          <Mark kind="sealed">sealed</Mark>
        </>
      )}
    </>
  );
}
