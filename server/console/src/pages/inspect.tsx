// The inspector: the fields of identifiers, and the regions that they belong to.
import { useEffect, useState } from "preact/hooks";
import { admin } from "../api/calls.ts";
import { Classification_Status } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { shortOf, splitRegion } from "../lib/names.ts";
import { splitTexts, TEXTS_MAX, toCsv } from "../lib/texts.ts";
import { linkTo, replaceRoute } from "../router.ts";
import { useLoad } from "../ui/load.ts";
import { Code, Facts, Field, Mark, Table } from "../ui/parts.tsx";
import { SpaceChoice } from "../ui/space.tsx";
import { Empty, Loaded } from "../ui/states.tsx";
import { toast } from "../ui/toast.tsx";
import { CSV_HEAD, type Finding, inspect, ownerOf, toRow } from "./finding.ts";

const ROWS_MAX = 200;
/** The maximum length of the list of identifiers in an address, in characters. */
const LINK_MAX = 2000;

/** The page. Its address contains the identifiers, if the list is short. */
export function InspectPage({ params }: { params: URLSearchParams }) {
  const given = params.get("ids") ?? "";
  const space = params.get("space") ?? "default";
  const [pasted, setPasted] = useState(given.replaceAll(" ", "\n"));
  const [asked, setAsked] = useState(given);
  useEffect(() => {
    if (given === "" || given === asked) return;
    setAsked(given);
    setPasted(given.replaceAll(" ", "\n"));
  }, [given]);
  const texts = splitTexts(pasted);
  const tooMany =
    texts.length > TEXTS_MAX
      ? `at most ${format.whole(TEXTS_MAX)} at once, not ${format.whole(texts.length)}`
      : undefined;
  const load = useLoad(
    async (signal) => (asked === "" ? undefined : inspect(splitTexts(asked), space, signal)),
    [asked, space],
  );
  const link = (ids: string, of: string) =>
    linkTo("inspect", [], { ids: ids.length <= LINK_MAX ? ids : undefined, space: of === "default" ? undefined : of });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const ids = texts.join(" ");
    setAsked(ids);
    replaceRoute(link(ids, space));
  };
  return (
    <div class="page">
      <header class="page-head">
        <h1>Inspector</h1>
        <SpaceChoice space={space} linkOf={(name) => link(asked, name)} />
      </header>
      <form class="inspect-form" onSubmit={submit}>
        <Field
          label="Identifiers"
          hint={`One or many, up to ${format.whole(TEXTS_MAX)}: UUIDs, numbers, any text form`}
          problem={tooMany}
        >
          <textarea
            rows={4}
            spellcheck={false}
            value={pasted}
            onInput={(event) => setPasted(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
            }}
          />
        </Field>
        <button type="submit" class="primary" disabled={texts.length === 0 || tooMany !== undefined}>
          Inspect{texts.length > 1 ? ` ${format.whole(texts.length)}` : ""}
        </button>
      </form>
      {asked === "" ? (
        <Empty title="Paste an identifier">
          <p class="quiet-text">
            The inspector shows its format, its bits, its time, and the region that it belongs to.
          </p>
        </Empty>
      ) : (
        <Loaded load={load} what="the identifiers" rows={6}>
          {(found) =>
            found && (
              <Findings
                findings={found.findings}
                notes={found.notes}
                link={asked.length <= LINK_MAX ? link(asked, space) : undefined}
              />
            )
          }
        </Loaded>
      )}
    </div>
  );
}

function Findings({ findings, notes, link }: { findings: Finding[]; notes: string[]; link: string | undefined }) {
  const [picked, setPicked] = useState(0);
  const one = findings[picked] ?? findings[0];
  const copy = async () => {
    if (link === undefined) return;
    await navigator.clipboard?.writeText(new URL(link, location.href).href);
    toast("The link was copied to the clipboard");
  };
  return (
    <>
      {notes.map((note) => (
        <p class="notice" key={note}>
          {note}
        </p>
      ))}
      <div class="actions">
        {link !== undefined && (
          <>
            <a class="button" href={link}>
              Link to this
            </a>
            <button type="button" onClick={copy}>
              Copy the link
            </button>
          </>
        )}
        <button type="button" onClick={() => download(findings)}>
          Save as CSV
        </button>
        {link === undefined && <span class="quiet-text">The list is too long for a link.</span>}
      </div>
      {findings.length > 1 && (
        <>
          <Table
            caption="Identifiers"
            rows={findings.slice(0, ROWS_MAX)}
            keyOf={({ index }) => index}
            columns={[
              {
                title: "Identifier",
                cell: ({ text, index }) => (
                  <button
                    type="button"
                    class="as-link"
                    aria-pressed={index === picked}
                    onClick={() => setPicked(index)}
                  >
                    <code>{text}</code>
                  </button>
                ),
              },
              {
                title: "Format",
                cell: ({ inspection, refused }) => inspection?.format ?? (refused && "no known format"),
              },
              { title: "Time (UTC)", wide: true, cell: ({ inspection }) => inspection?.time ?? "" },
              { title: "Region", cell: (finding) => ownerOf(finding) },
            ]}
          />
          {findings.length > ROWS_MAX && (
            <p class="quiet-text">
              The first {ROWS_MAX} of {format.whole(findings.length)}. The CSV has all of them.
            </p>
          )}
        </>
      )}
      {one && <Details finding={one} />}
    </>
  );
}

function download(findings: readonly Finding[]) {
  const url = URL.createObjectURL(new Blob([toCsv([CSV_HEAD, ...findings.map(toRow)])], { type: "text/csv" }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = "identifiers.csv";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const STATUS: Record<Classification_Status, string> = {
  [Classification_Status.STATUS_UNSPECIFIED]: "unknown",
  [Classification_Status.FREE]: "in no region",
  [Classification_Status.UNASSIGNED]: "in a closed region, under an extension without a subregion",
  [Classification_Status.RESERVED]: "in a region's expansion zone",
  [Classification_Status.MEMBER]: "belongs to a region",
};

/** Everything about one identifier. */
function Details({ finding }: { finding: Finding }) {
  const { inspection, classification, refused, text, slot } = finding;
  const status = useLoad((signal) => admin.getStatus({}, { signal }), []);
  const replica = status.value?.replicas.find((one) => String(one.slot) === slot)?.address;
  return (
    <article class="sections" aria-label={`Identifier ${text}`}>
      {inspection && (
        <section class="card wide-card">
          <h2>{inspection.format}</h2>
          <Facts
            facts={[
              ["Identifier", <Code key="id" text={inspection.canonical} />],
              ["Read as this because", inspection.because],
              inspection.time !== "" && ["UTC time", <time key="utc">{inspection.time}</time>],
              inspection.time !== "" && ["Local time", format.moment(Date.parse(inspection.time))],
              slot !== undefined && ["Slot", `${slot}${replica ? `, now held by ${replica}` : ""}`],
              inspection.also.length > 0 && ["It could also be", inspection.also.join("; ")],
            ]}
          />
          <ol class="labeled-bits" aria-label="Bits">
            {inspection.layout.map(({ first, last, label, bits }, index) => (
              <li key={first} class={`tone-${index % 3}`}>
                <span class="bits-label">{label}</span>
                <Code text={bits} />
                <span class="bits-range">{first === last ? first : `${first}–${last}`}</span>
              </li>
            ))}
          </ol>
          <Table
            caption="Fields"
            rows={inspection.fields.map((field, index) => ({ ...field, index }))}
            keyOf={({ index }) => index}
            columns={[
              { title: "Field", cell: ({ name }) => name },
              { title: "Value", cell: ({ value }) => <code>{value}</code> },
              { title: "Meaning", wide: true, cell: ({ meaning }) => meaning },
            ]}
          />
        </section>
      )}
      {refused !== undefined && !inspection && (
        <section class="card">
          <h2>No known format</h2>
          <p>{refused}</p>
        </section>
      )}
      {classification && (
        <section class="card">
          <h2>Region</h2>
          <Facts
            facts={[
              ["Status", STATUS[classification.status]],
              classification.path.length > 0 && ["Path", <Path key="path" names={classification.path} />],
              classification.status === Classification_Status.MEMBER && ["Suffix", finding.suffix],
              classification.status === Classification_Status.MEMBER && [
                "Issued",
                classification.others ? (
                  "not known: outside the step"
                ) : classification.issued ? (
                  <Mark kind="good">yes</Mark>
                ) : (
                  <Mark kind="warn">no</Mark>
                ),
              ],
              classification.issuedPrefix !== undefined && [
                "Issued when the prefix was",
                <Code key="p" text={classification.issuedPrefix} />,
              ],
              classification.formerPrefixes.length > 0 && [
                "Former prefixes",
                classification.formerPrefixes.map(({ prefix, fromRevision, toRevision }) => (
                  <div key={prefix}>
                    <Code text={prefix} /> in revisions {format.whole(fromRevision)} to {format.whole(toRevision)}
                  </div>
                )),
              ],
              classification.local && [
                "In its own space",
                classification.local.path.map(shortOf).join(" › ") || STATUS[classification.local.status],
              ],
            ]}
          />
        </section>
      )}
    </article>
  );
}

function Path({ names }: { names: readonly string[] }) {
  return (
    <ol class="path">
      {names.map((name) => {
        const parts = splitRegion(name);
        return (
          <li key={name}>
            {parts ? <a href={linkTo("region", [parts.space, parts.region])}>{parts.region}</a> : name}
          </li>
        );
      })}
    </ol>
  );
}
