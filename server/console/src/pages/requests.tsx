// The requests for regions of a space: the user's own requests, and those that the user can answer.
import { useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { useApp, useNewRegions } from "../app-state.ts";
import { AskDialog, CloseDialog } from "../edits/ask.tsx";
import type { RegionRequest } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { shortOf, spaceName, splitRegion } from "../lib/names.ts";
import { idOf, isOpen, stateOf } from "../lib/requests.ts";
import { linkTo } from "../router.ts";
import { useLoad } from "../ui/load.ts";
import { Check, Facts, Mark } from "../ui/parts.tsx";
import { useRequests } from "../ui/requests.ts";
import { SpaceChoice } from "../ui/space.tsx";
import { Empty, Loaded } from "../ui/states.tsx";

const DEFAULT_BITS = 64;
const AGAIN_MS = 5000;

type Closing = { request: RegionRequest; how: "decline" | "withdraw" };

/** The page. */
export function RequestsPage({ space, made, onDone }: { space: string; made: number; onDone: () => void }) {
  const offers = useNewRegions(space);
  const [all, setAll] = useState(false);
  const [asks, setAsks] = useState(false);
  const [closing, setClosing] = useState<Closing>();
  const load = useRequests({ space, includeClosed: all, news: made, everyMs: AGAIN_MS, has: true });
  return (
    <div class="page">
      <header class="page-head">
        <h1>Requests</h1>
        <SpaceChoice space={space} linkOf={(name) => linkTo("requests", [name])} />
        <Check label="Include closed requests" checked={all} onChange={setAll} />
        {offers.asks && (
          <button type="button" class="primary" onClick={() => setAsks(true)}>
            Ask for a region
          </button>
        )}
      </header>
      <Loaded load={load} what="the requests" rows={6}>
        {(requests = []) =>
          requests.length === 0 ? (
            <Empty title={all ? "No requests" : "No open requests"}>
              <p>
                {offers.asks
                  ? "Ask for a region. An operator will create it or decline."
                  : "Users who may not create regions here can ask for one. Their requests appear on this page."}
              </p>
            </Empty>
          ) : (
            <ol class="timeline">
              {requests.map((request) => (
                <li key={request.name}>
                  <Request request={request} space={space} onClosing={setClosing} />
                </li>
              ))}
            </ol>
          )
        }
      </Loaded>
      {asks && <AskDialog space={space} onClose={() => setAsks(false)} onDone={onDone} />}
      {closing && <CloseDialog {...closing} onClose={() => setClosing(undefined)} onDone={onDone} />}
    </div>
  );
}

/** One request, and what the user can do with it. */
function Request(props: { request: RegionRequest; space: string; onClosing: (closing: Closing) => void }) {
  const { request, space, onClosing } = props;
  const { edit, readOnly } = useApp();
  const canAnswer = isOpen(request) && request.decidable && !readOnly;
  const canWithdraw = isOpen(request) && request.mine && !readOnly;
  const width = useLoad(
    async (signal) =>
      canAnswer ? (await regions.getSpace({ name: spaceName(space) }, { signal })).bits : DEFAULT_BITS,
    [space, canAnswer],
  );
  const { word, kind } = stateOf(request);
  const region = splitRegion(request.region);
  const labels = Object.entries(request.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <>
      <p class="timeline-head">
        <b>{request.regionId}</b>
        <Mark kind={kind}>{word}</Mark>
        <span>request {idOf(request)}</span>
      </p>
      <p class="quiet-text">
        <time dateTime={request.createTime}>{format.moment(Date.parse(request.createTime))}</time> by{" "}
        {request.requester || "unknown"}
      </p>
      <blockquote>{request.reason}</blockquote>
      <Facts
        facts={[
          ["Suffix", `${request.suffixBits} bits`],
          request.zoneBits !== undefined && ["Zone", `${request.zoneBits} bits`],
          request.owner !== "" && ["Owner", request.owner],
          labels.length > 0 && ["Labels", labels.join(", ")],
          region && [
            "Made",
            <a key="made" href={linkTo("region", [region.space, region.region])}>
              {shortOf(request.region)}
            </a>,
          ],
          request.closeTime !== "" && [
            "Closed",
            `${format.moment(Date.parse(request.closeTime))} by ${request.closedBy || "unknown"}`,
          ],
          request.note !== "" && ["Note", request.note],
        ]}
      />
      {(canAnswer || canWithdraw) && (
        <div class="actions">
          {canAnswer && (
            <>
              <button
                type="button"
                class="primary"
                aria-label={`Preview and make ${request.regionId}`}
                onClick={() => edit({ op: "create", space, bits: width.value ?? DEFAULT_BITS, request })}
              >
                Preview and make
              </button>
              <button
                type="button"
                aria-label={`Decline ${request.regionId}`}
                onClick={() => onClosing({ request, how: "decline" })}
              >
                Decline
              </button>
            </>
          )}
          {canWithdraw && (
            <button
              type="button"
              aria-label={`Withdraw ${request.regionId}`}
              onClick={() => onClosing({ request, how: "withdraw" })}
            >
              Withdraw
            </button>
          )}
        </div>
      )}
    </>
  );
}
