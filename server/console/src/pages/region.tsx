// One region: its bits, its counters, its policy and its history.
import type { ComponentChildren } from "preact";
import { regions } from "../api/calls.ts";
import { useApp, useMay } from "../app-state.ts";
import { bits, policyOf, stateOf } from "../edits/describe.ts";
import { OPS, opsFor } from "../edits/intent.ts";
import { type Region, Region_Order } from "../gen/kent/v1/regions_pb.ts";
import { firstOf, lastOf, shareOf, widthOf } from "../lib/bits.ts";
import { format } from "../lib/format.ts";
import { regionName, shortOf, splitRegion } from "../lib/names.ts";
import { isClosed, untilFull } from "../map/words.ts";
import { linkTo, replaceRoute } from "../router.ts";
import { Bar, Legend } from "../ui/bar.tsx";
import { useLoad } from "../ui/load.ts";
import { Code, Facts, Mark, Table, Tabs, Wrapped } from "../ui/parts.tsx";
import { useRevision } from "../ui/space.tsx";
import { Empty, Loaded } from "../ui/states.tsx";
import { Timeline, useHistory } from "./history.tsx";

type Tab = "details" | "history";

/** The page. */
export function RegionPage(props: { space: string; region: string; params: URLSearchParams; made: number }) {
  const { space, region: id, params, made } = props;
  const revision = useRevision(space);
  const news = `${revision ?? ""} ${made}`;
  const name = regionName(space, id);
  const tab: Tab = params.get("tab") === "history" ? "history" : "details";
  const load = useLoad((signal) => regions.getRegion({ name }, { signal }), [name, news]);
  return (
    <div class="page">
      <nav class="crumbs" aria-label="Path">
        <ol>
          <li>
            <a href={linkTo("map", [space], { pick: load.value?.prefix })}>{space}</a>
          </li>
          {load.value && load.value.parent !== "" && <Parent name={load.value.parent} />}
          <li>
            <span aria-current="location">{id}</span>
          </li>
        </ol>
      </nav>
      <header class="page-head">
        <h1>
          {id}
          {load.value && <Marks region={load.value} />}
        </h1>
      </header>
      <Loaded load={load} what={`region ${id}`} rows={8}>
        {(region) => (
          <>
            <Head region={region} space={space} />
            <Tabs
              label="Sections"
              tabs={[
                ["details", "Details"],
                ["history", "History"],
              ]}
              value={tab}
              onChange={(value) =>
                replaceRoute(linkTo("region", [space, id], { tab: value === "details" ? undefined : value }))
              }
            >
              {tab === "details" ? (
                <Details region={region} width={widthOf(region)} />
              ) : (
                <RegionHistory name={name} space={space} news={news} />
              )}
            </Tabs>
          </>
        )}
      </Loaded>
    </div>
  );
}

function Marks({ region }: { region: Region }) {
  return (
    <>
      {region.sealed && <Mark kind="sealed">sealed</Mark>}
      {region.delegatedSpace !== "" && <Mark kind="delegated">delegated</Mark>}
      {region.policy?.strict && <Mark kind="plain">strict</Mark>}
    </>
  );
}

function Parent({ name }: { name: string }) {
  const parts = splitRegion(name);
  return parts ? (
    <li>
      <a href={linkTo("region", [parts.space, parts.region])}>{parts.region}</a>
    </li>
  ) : null;
}

function Head({ region, space }: { region: Region; space: string }) {
  const { edit } = useApp();
  const may = useMay();
  const parts = splitRegion(region.name);
  return (
    <>
      {region.sealedBy !== "" && region.sealedBy !== region.name && (
        <p class="notice">
          Nothing is granted: {region.sealedBy === "-" ? "a region around it" : shortOf(region.sealedBy)} is sealed.
        </p>
      )}
      <Bar shape={region} />
      <Legend />
      {parts && may("edit", { kind: "region", ...parts }) && (
        <div class="actions">
          {opsFor(region).map((op) => (
            <button type="button" key={op} onClick={() => edit({ op, space, bits: widthOf(region), region })}>
              {OPS[op].title}
            </button>
          ))}
        </div>
      )}
    </>
  );
}

const ORDERS: Record<Region_Order, string> = {
  [Region_Order.ORDER_UNSPECIFIED]: "sequential",
  [Region_Order.SEQUENTIAL]: "sequential",
  [Region_Order.SCRAMBLED]: "scrambled",
  [Region_Order.EXTERNAL]: "external",
};

function Details({ region, width }: { region: Region; width: number }) {
  const closed = isClosed(region);
  const issued = BigInt(region.issued || "0");
  const reserved = BigInt(region.reserved || "0");
  const capacity = BigInt(region.capacity || "0");
  const fill = shareOf(issued, capacity);
  return (
    <div class="sections">
      <Section title="Use">
        <meter class="fill" min={0} max={1} value={fill} aria-label="Issued">
          {format.share(fill)}
        </meter>
        <Facts
          facts={[
            ["Issued", `${format.whole(issued)} (${format.share(fill)})`],
            ["Issued or reserved", format.whole(reserved)],
            ["Capacity", <Count key="capacity" value={capacity} />],
            ["Capacity after full expansion", <Count key="ultimate" value={BigInt(region.ultimateCapacity || "0")} />],
            ["Rate on this daemon", `${format.short(region.rate)}/s`],
            ["Time until full", untilFull(region)],
          ]}
        />
      </Section>
      <Section title="Place">
        <Facts
          facts={[
            ["Prefix", <Code key="prefix" text={region.prefix} />],
            ["Zone, suffix", `${bits(region.zoneBits)}, ${bits(region.suffixBits)}`],
            // A closed region has neither a zone nor a suffix, which would show the width.
            !closed && ["First identifier", <Code key="first" text={firstOf(region.prefix, width).toString()} />],
            !closed && ["Last identifier", <Code key="last" text={lastOf(region.prefix, width).toString()} />],
            ["Prefix since revision", format.whole(region.prefixSince)],
            ["Number", format.whole(region.number)],
          ]}
        />
      </Section>
      <Section title="Rules">
        <Facts
          facts={[
            ["State", stateOf(region)],
            ["Order", ORDERS[region.order]],
            ["Policy", policyOf(region) || "none"],
            ["Pace", `at most ${format.whole(region.pace)}/s on average`],
            region.delegatedSpace !== "" && [
              "Space of its suffixes",
              <a key="space" href={linkTo("map", [region.delegatedSpace.replace(/^spaces\//, "")])}>
                {region.delegatedSpace.replace(/^spaces\//, "")}
              </a>,
            ],
          ]}
        />
      </Section>
      <Section title="Description">
        <Facts
          facts={[
            ["Owner", region.owner || "none"],
            ["Description", region.description || "none"],
            ...Object.entries(region.labels).map(([name, value]) => [name, value] as const),
          ]}
        />
      </Section>
      {region.formerPrefixes.length > 0 && (
        <Section title="Former prefixes" wide>
          <Table
            caption="Former prefixes"
            rows={region.formerPrefixes}
            keyOf={({ prefix, fromRevision }) => `${prefix} ${fromRevision}`}
            columns={[
              { title: "Prefix", cell: ({ prefix }) => <code>{prefix}</code> },
              { title: "From revision", number: true, cell: ({ fromRevision }) => format.whole(fromRevision) },
              { title: "To revision", number: true, cell: ({ toRevision }) => format.whole(toRevision) },
              { title: "Issued below", number: true, cell: ({ reserved }) => format.whole(BigInt(reserved || "0")) },
            ]}
          />
        </Section>
      )}
    </div>
  );
}

/** A number in its short form, with all digits in a tooltip. */
function Count({ value }: { value: bigint }) {
  return (
    <span title={format.whole(value)}>
      <Wrapped text={format.count(value)} />
    </span>
  );
}

function Section({ title, wide, children }: { title: string; wide?: boolean; children: ComponentChildren }) {
  return (
    <section class={wide ? "card wide-card" : "card"}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function RegionHistory({ name, space, news }: { name: string; space: string; news: string }) {
  const load = useHistory(name, news);
  return (
    <Loaded load={load} what="the history">
      {(history) =>
        history.entries.length === 0 ? (
          <Empty title="The history has no edit of this region" />
        ) : (
          <Timeline history={history} space={space} parent={name} />
        )
      }
    </Loaded>
  );
}
