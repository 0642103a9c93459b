// The fields of each edit.
import { capacityHint } from "../lib/format.ts";
import { namesText } from "../lib/names.ts";
import { Check, Choice, Field } from "../ui/parts.tsx";
import type { Draft, FieldName, NewDraft } from "./draft.ts";

interface FormProps {
  draft: Draft;
  /** The width of the space's identifiers in bits. */
  bits: number;
  /** The patterns of the names that the user may create. */
  names: readonly string[];
  /** Whether a policy would have an effect on the region. */
  takesPolicy: boolean;
  problems: Partial<Record<FieldName, string>>;
  onChange: (over: Partial<Draft>) => void;
}

/** The names of the fields whose values are strings. */
type TextName = { [K in keyof Draft]-?: Draft[K] extends string ? K : never }[keyof Draft];

/** Renders the fields of an edit. */
export function Form(props: FormProps) {
  const { draft, names, onChange } = props;
  switch (draft.op) {
    case "create":
      return (
        <>
          <Text {...props} name="region" label="Name" hint={namesHint(names)} autofocus />
          <div class="fields">
            <Text {...props} name="suffix" label="Suffix bits" number hint={capacityHint(draft.suffix)} />
            {draft.prefix === "" && <Text {...props} name="zone" label="Zone bits" number hint="empty: up to 8" />}
          </div>
          <Text {...props} name="prefix" label="Prefix" hint="zeros and ones; empty: the daemon chooses" />
          <Choice
            label="Order"
            options={[
              ["sequential", "Sequential"],
              ["scrambled", "Scrambled"],
              ["external", "External"],
            ]}
            value={draft.order}
            onChange={(order) => onChange({ order })}
          />
          {draft.prefix === "" && (
            <Check
              label="Split another region if no prefix is free"
              checked={draft.autoSplit}
              onChange={(autoSplit) => onChange({ autoSplit })}
            />
          )}
          <Check label="Create it sealed" checked={draft.sealed} onChange={(sealed) => onChange({ sealed })} />
        </>
      );
    case "expand":
    case "shrink":
      return <Text {...props} name="by" label="By how many bits" number autofocus />;
    case "split":
    case "subdivide":
      return (
        <>
          <Text {...props} name="by" label="By how many bits" number autofocus />
          <Parts {...props} />
          {draft.op === "subdivide" && (
            <Check
              label="Take the all-zero extension, too (abstract)"
              checked={draft.abstract}
              onChange={(abstract) => onChange({ abstract })}
            />
          )}
        </>
      );
    case "rename":
      return <Text {...props} name="newName" label="New name" autofocus />;
    case "delete":
      return (
        <Check
          label="No number of the region is in use (needed only for external regions)"
          checked={draft.unused}
          onChange={(unused) => onChange({ unused })}
        />
      );
    case "set":
      return (
        <>
          <Text {...props} name="owner" label="Owner" autofocus />
          <Text {...props} name="description" label="Description" />
          {props.takesPolicy && <Policy {...props} />}
        </>
      );
    default:
      return null;
  }
}

/** The policy and the counter of a region. */
function Policy(props: FormProps) {
  const { draft, onChange } = props;
  return (
    <>
      <div class="fields">
        <Text {...props} name="cap" label="Cap" hint="maximum number of identifiers to issue; empty: no cap" />
        <Text {...props} name="next" label="Next number" hint="all smaller numbers count as issued" />
      </div>
      <Check
        label="Strict: no gaps, each grant is durable"
        checked={draft.strict}
        onChange={(strict) => onChange({ strict })}
      />
      <div class="fields">
        <Text
          {...props}
          name="step"
          label="Step"
          number
          hint="issue only every n-th number, and leave the others to another generator; empty: every number"
        />
        {draft.step !== "" && (
          <Text {...props} name="offset" label="Offset" number hint="the lowest number, below the step" />
        )}
      </div>
      <Check
        label="Expand automatically"
        checked={draft.autoExpand}
        onChange={(autoExpand) => onChange({ autoExpand })}
      />
      {draft.autoExpand && (
        <div class="fields">
          <Text {...props} name="atPercent" label="At percent" number />
          <Text {...props} name="byBits" label="By bits" number />
          <Text {...props} name="maxBits" label="Up to bits" number hint="empty: as far as possible" />
        </div>
      )}
    </>
  );
}

/** Which names the user may give to new regions, if not all. */
function namesHint(names: readonly string[]): string {
  return names.length === 0 || names.includes("*") ? "" : `You may create only names like ${namesText(names)}`;
}

/** The new regions of a split or a subdivision. */
function Parts({ draft, names, problems, onChange }: FormProps) {
  const put = (index: number, over: Partial<NewDraft>) =>
    onChange({ parts: draft.parts.map((part, at) => (at === index ? { ...part, ...over } : part)) });
  return (
    <fieldset class="parts">
      <legend>New regions</legend>
      {namesHint(names) && <p class="field-hint">{namesHint(names)}</p>}
      {draft.parts.map((part, index) => (
        // The key is the index, so that a field keeps the focus while the user types.
        <div class="fields" key={index}>
          {(
            [
              ["id", "Name"],
              ["suffix", "Suffix bits"],
              ["extension", "Extension"],
            ] as const
          ).map(([field, label]) => (
            <Field key={field} label={label} problem={problems[`parts.${index}.${field}`]}>
              <input
                value={part[field]}
                inputMode={field === "id" ? "text" : "numeric"}
                placeholder={field === "extension" ? "lowest free" : ""}
                autocomplete="off"
                onInput={(event) => put(index, { [field]: event.currentTarget.value })}
              />
            </Field>
          ))}
          <button
            type="button"
            class="quiet"
            aria-label={`Remove new region ${index + 1}`}
            onClick={() => onChange({ parts: draft.parts.filter((_, at) => at !== index) })}
          >
            ✕
          </button>
        </div>
      ))}
      <button
        type="button"
        onClick={() => onChange({ parts: [...draft.parts, { id: "", suffix: "20", extension: "" }] })}
      >
        Add a region
      </button>
    </fieldset>
  );
}

function Text(
  props: FormProps & { name: TextName; label: string; hint?: string; number?: boolean; autofocus?: boolean },
) {
  const { draft, problems, onChange, name, label, hint, number, autofocus } = props;
  return (
    <Field label={label} hint={hint} problem={problems[name]}>
      <input
        value={draft[name]}
        inputMode={number ? "numeric" : "text"}
        autocomplete="off"
        spellcheck={false}
        autofocus={autofocus ?? false}
        onInput={(event) => onChange({ [name]: event.currentTarget.value })}
      />
    </Field>
  );
}
