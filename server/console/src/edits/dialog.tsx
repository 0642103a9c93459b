// The dialog for an edit: a form, and a preview from the daemon's dry run. The user sees the preview before the edit is made.
import { useId, useMemo, useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { type Refused, refusedBy } from "../api/refused.ts";
import { useNewRegions } from "../app-state.ts";
import type { EditResponse } from "../gen/kent/v1/regions_pb.ts";
import { format } from "../lib/format.ts";
import { reasonOf } from "../lib/requests.ts";
import { Dialog } from "../ui/dialog.tsx";
import { useLoad, useRested } from "../ui/load.ts";
import { Field } from "../ui/parts.tsx";
import { toast } from "../ui/toast.tsx";
import { Changes } from "./changes.tsx";
import { type Draft, draftOf, draftOfSuggestion, toCall } from "./draft.ts";
import { Form } from "./form.tsx";
import { type EditIntent, OPS, takesPolicy } from "./intent.ts";

const REST_MS = 250;
/** The initial value of the field "Reason". */
function reasonBefore(intent: EditIntent): string {
  return intent.op === "create" && intent.request ? reasonOf(intent.request) : "";
}

/** The rule that an edit breaks if the table has changed since its preview. */
const STALE = "STALE_REVISION";

/** The dialog. It calls `onMade` after the edit. */
export function EditDialog({
  intent,
  onClose,
  onMade,
}: {
  intent: EditIntent;
  onClose: () => void;
  onMade: () => void;
}) {
  const { names } = useNewRegions(intent.space);
  const [draft, setDraft] = useState<Draft>(() => draftOf(intent));
  const [touched, setTouched] = useState(false);
  const [reason, setReason] = useState(() => reasonBefore(intent));
  const [making, setMaking] = useState(false);
  const [failed, setFailed] = useState<Refused>();
  const [isStale, setIsStale] = useState(false);
  const formId = useId();
  const checked = toCall(draft);
  const { was: _was, ...typed } = draft;
  const key = useRested(checked.ok ? JSON.stringify(typed) : "", REST_MS);
  // With a request ID, a repeated call makes the edit only once. Browsers generate UUIDs only for pages that are served
  // over TLS or from the same machine.
  const requestId = useMemo(() => (key === "" ? "" : (crypto.randomUUID?.() ?? "")), [key]);
  const preview = useLoad(
    async (signal) =>
      key === "" || !checked.ok ? undefined : checked.send(regions, { validateOnly: true }, { signal }),
    [key],
  );
  const planned = key === "" ? undefined : preview.value;
  const refused = failed ?? preview.refused;
  const isFresh = checked.ok && key === JSON.stringify(typed) && !preview.asking;
  const changesNothing = planned !== undefined && planned.revision === planned.baseRevision;
  const canMake = isFresh && planned !== undefined && !changesNothing && reason.trim() !== "" && !making;

  const change = (over: Partial<Draft>) => {
    setTouched(true);
    setFailed(undefined);
    setIsStale(false);
    setDraft((before) => ({ ...before, ...over }));
  };
  const make = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!checked.ok || !canMake || !planned) return;
    setMaking(true);
    try {
      const made = await checked.send(regions, {
        validateOnly: false,
        expectedRevision: planned.baseRevision,
        reason: reason.trim(),
        ...(requestId ? { requestId } : {}),
      });
      toast(
        `${OPS[draft.op].title}: revision ${format.whole(made.baseRevision)} → ${format.whole(made.revision)}${waitOf(made)}`,
      );
      onMade();
      onClose();
    } catch (error) {
      const refused = refusedBy(error);
      if (refused.rule === STALE) setIsStale(true);
      else setFailed(refused);
      setMaking(false);
      preview.again();
    }
  };

  const { title, does } = OPS[draft.op];
  const what = draft.op === "create" ? "a region" : draft.op === "undo" ? "the last edit" : draft.region;
  return (
    <Dialog title={`${title} ${what}`} onClose={onClose}>
      <form class="edit" onSubmit={make} id={formId}>
        <p class="quiet-text">{does}</p>
        {intent.op === "create" && intent.request && (
          <p class="notice">
            This answers the request of {intent.request.requester || "an unknown user"}.
            {intent.request.owner !== "" && ` The owner becomes ${intent.request.owner}.`}
          </p>
        )}
        <Form
          draft={draft}
          bits={intent.bits}
          names={names}
          takesPolicy={!("region" in intent) || takesPolicy(intent.region)}
          problems={touched && !checked.ok ? checked.problems : {}}
          onChange={change}
        />
        <section
          class={previewClass(draft, checked.ok)}
          aria-label="Preview"
          aria-live="polite"
          aria-busy={preview.asking}
        >
          <h3>Preview</h3>
          {isStale && <p class="notice">The table has changed meanwhile. This is what the edit would do now.</p>}
          {refused ? (
            <Refusal refused={refused} draft={draft} onTake={change} />
          ) : changesNothing ? (
            <p class="quiet-text">This changes nothing.</p>
          ) : planned ? (
            <Changes
              changes={planned.changes}
              base={planned.baseRevision}
              revision={planned.revision}
              freed={planned.freedPrefixes}
            />
          ) : (
            <p class="quiet-text">
              {checked.ok ? "Asking the daemon what this would do." : "Fill in the form to see what this would do."}
            </p>
          )}
        </section>
        <Field label="Reason" hint="The history of the table keeps it.">
          <input
            value={reason}
            maxLength={1000}
            required
            onInput={(event) => setReason(event.currentTarget.value)}
            placeholder="why this is done"
          />
        </Field>
        <footer class="dialog-foot">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={draft.op === "delete" || draft.op === "seal" ? "primary danger" : "primary"}
            disabled={!canMake}
          >
            {title}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** The class of the preview: with a complete form, the preview has the height of what the daemon will answer. */
function previewClass({ op }: Draft, isComplete: boolean): string {
  if (!isComplete) return "preview";
  return op === "split" || op === "subdivide" ? "preview asked of-several" : "preview asked";
}

function waitOf({ unconfirmed, effectiveWithinMs }: EditResponse): string {
  return unconfirmed.length === 0
    ? ""
    : `. Not confirmed yet by ${unconfirmed.join(", ")}: in force everywhere within ${format.duration(Number(effectiveWithinMs) / 1000)}`;
}

/** Why an edit was refused: the rule, and a similar edit that is legal. */
function Refusal({
  refused,
  draft,
  onTake,
}: {
  refused: Refused;
  draft: Draft;
  onTake: (over: Partial<Draft>) => void;
}) {
  const { suggestion } = refused;
  const instead = suggestion && draftOfSuggestion(suggestion, draft);
  return (
    <div class="refusal" role="alert">
      {refused.rule !== "" && <code>{refused.rule}</code>}
      <p>{refused.message}</p>
      {instead && (
        <button type="button" onClick={() => onTake(instead)}>
          {suggestionText(instead)}
        </button>
      )}
    </div>
  );
}

function suggestionText(draft: Draft): string {
  switch (draft.op) {
    case "expand":
    case "shrink":
      return `Instead: ${draft.op} ${draft.region} by ${draft.by}`;
    case "split":
    case "subdivide":
      return `Instead: ${draft.op} ${draft.region} by ${draft.by}, with ${draft.parts.map(({ id }) => id).join(", ")}`;
    case "create":
      return `Instead: create ${draft.region}${draft.prefix ? ` on ${draft.prefix}` : ""} with a suffix of ${draft.suffix}`;
    default:
      return `Instead: ${draft.op} ${draft.region}`;
  }
}
