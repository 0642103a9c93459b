// The dialogs for requests: to ask for a region, to decline a request, and to withdraw one.
import { useState } from "preact/hooks";
import { regions } from "../api/calls.ts";
import { type Refused, refusedBy } from "../api/refused.ts";
import { useNewRegions } from "../app-state.ts";
import { type RegionRequest, RegionRequest_State } from "../gen/kent/v1/regions_pb.ts";
import { capacityHint } from "../lib/format.ts";
import { namesText, spaceName } from "../lib/names.ts";
import { idOf } from "../lib/requests.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Field } from "../ui/parts.tsx";
import { toast } from "../ui/toast.tsx";

const REASON_MAX = 1000;

/** Asks for a region that the user may not create. */
export function AskDialog({ space, onClose, onDone }: { space: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  const [suffix, setSuffix] = useState("32");
  const [zone, setZone] = useState("");
  const [reason, setReason] = useState("");
  const { names } = useNewRegions(space);
  const { send, sending, refused } = useSend(onClose, onDone);
  const isBits = (text: string) => /^\d{1,3}$/.test(text.trim()) && Number(text) <= 128;
  const problems = {
    name:
      name === "" || /^[a-zA-Z0-9][\w.-]{0,62}$/.test(name)
        ? undefined
        : "1 to 63 letters, digits, - _ or . that begin with a letter or digit",
    suffix: isBits(suffix) ? undefined : "a whole number from 0 to 128",
    zone: zone.trim() === "" || isBits(zone) ? undefined : "a whole number from 0 to 128",
  };
  const isComplete = name !== "" && reason.trim() !== "" && Object.values(problems).every((problem) => !problem);
  const ask = (event: SubmitEvent) => {
    event.preventDefault();
    if (!isComplete) return;
    void send(async () => {
      const asked = await regions.requestRegion({
        parent: spaceName(space),
        regionId: name,
        suffixBits: Number(suffix),
        ...(zone.trim() === "" ? {} : { zoneBits: Number(zone) }),
        reason: reason.trim(),
      });
      return `Request ${idOf(asked)}: an operator will create the region or decline the request.`;
    });
  };
  return (
    <Dialog title="Ask for a region" onClose={onClose}>
      <form class="edit" onSubmit={ask}>
        <p class="quiet-text">
          {names.length > 0
            ? `In the space ${space}, you may create only regions named ${namesText(names)}. An operator will see your request for another name, and create the region or decline.`
            : `You may not create regions in the space ${space}. An operator will see your request, and create the region or decline.`}
        </p>
        <Field label="Name" problem={problems.name}>
          <input
            value={name}
            required
            autofocus
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <div class="fields">
          <Field label="Suffix bits" hint={capacityHint(suffix)} problem={problems.suffix}>
            <input value={suffix} inputMode="numeric" onInput={(event) => setSuffix(event.currentTarget.value)} />
          </Field>
          <Field label="Zone bits" hint="empty: the operator decides" problem={problems.zone}>
            <input value={zone} inputMode="numeric" onInput={(event) => setZone(event.currentTarget.value)} />
          </Field>
        </div>
        <ReasonField reason={reason} onChange={setReason} hint="The operator who decides will read it." />
        <Foot refused={refused} onClose={onClose} title="Ask" disabled={!isComplete || sending} />
      </form>
    </Dialog>
  );
}

/** Declines a request of another user, or withdraws one of the user's own. */
export function CloseDialog(props: {
  request: RegionRequest;
  how: "decline" | "withdraw";
  onClose: () => void;
  onDone: () => void;
}) {
  const { request, how, onClose, onDone } = props;
  const [note, setNote] = useState("");
  const { send, sending, refused } = useSend(onClose, onDone);
  const isComplete = how === "withdraw" || note.trim() !== "";
  const close = (event: SubmitEvent) => {
    event.preventDefault();
    if (!isComplete) return;
    void send(async () => {
      const state = how === "decline" ? RegionRequest_State.DECLINED : RegionRequest_State.WITHDRAWN;
      await regions.closeRegionRequest({ name: request.name, state, note: note.trim() });
      return `Request ${idOf(request)} was ${how === "decline" ? "declined" : "withdrawn"}.`;
    });
  };
  const title = how === "decline" ? "Decline" : "Withdraw";
  return (
    <Dialog title={`${title} request ${idOf(request)}`} onClose={onClose}>
      <form class="edit" onSubmit={close}>
        <p class="quiet-text">
          {how === "decline"
            ? `The region ${request.regionId} will not be created. The requester sees your reason.`
            : `You no longer ask for the region ${request.regionId}.`}
        </p>
        <ReasonField reason={note} onChange={setNote} optional={how === "withdraw"} />
        <Foot refused={refused} onClose={onClose} title={title} disabled={!isComplete || sending} />
      </form>
    </Dialog>
  );
}

function ReasonField(props: { reason: string; onChange: (text: string) => void; hint?: string; optional?: boolean }) {
  return (
    <Field label="Reason" hint={props.hint ?? (props.optional ? "You can leave this empty." : undefined)}>
      <input
        value={props.reason}
        maxLength={REASON_MAX}
        required={!props.optional}
        autocomplete="off"
        onInput={(event) => props.onChange(event.currentTarget.value)}
      />
    </Field>
  );
}

function Foot(props: { refused: Refused | undefined; onClose: () => void; title: string; disabled: boolean }) {
  return (
    <>
      {props.refused && (
        <div class="refusal" role="alert">
          {props.refused.rule !== "" && <code>{props.refused.rule}</code>}
          <p>{props.refused.message}</p>
        </div>
      )}
      <footer class="dialog-foot">
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={props.disabled}>
          {props.title}
        </button>
      </footer>
    </>
  );
}

/** Sends a call of a dialog, and closes the dialog when it has succeeded. */
function useSend(onClose: () => void, onDone: () => void) {
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useState<Refused>();
  const send = async (call: () => Promise<string>) => {
    setSending(true);
    setRefused(undefined);
    try {
      toast(await call());
      onDone();
      onClose();
    } catch (error) {
      setRefused(refusedBy(error));
      setSending(false);
    }
  };
  return { send, sending, refused };
}
