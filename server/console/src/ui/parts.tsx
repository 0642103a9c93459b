// Small components: fields, tables, tabs, choices.
import { type ComponentChildren, cloneElement, Fragment, type VNode } from "preact";
import { useId } from "preact/hooks";
import { format, wordsOf } from "../lib/format.ts";

/** A labeled input of a form, with a hint. */
export function Field(props: {
  label: string;
  hint?: ComponentChildren;
  problem?: string | undefined;
  children: VNode<{ id?: string }>;
}) {
  const id = useId();
  const told = props.hint || props.problem ? `${id}-told` : undefined;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {cloneElement(props.children as VNode<Record<string, unknown>>, {
        id,
        "aria-describedby": told,
        "aria-invalid": props.problem ? "true" : undefined,
      })}
      {told && (
        <p class={props.problem ? "field-problem" : "field-hint"} id={told}>
          {props.problem || props.hint}
        </p>
      )}
    </div>
  );
}

/** A checkbox. */
export function Check(props: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      {props.label}
    </label>
  );
}

/** A choice between a few options, side by side. */
export function Choice<V extends string>(props: {
  label: string;
  options: readonly (readonly [V, string])[];
  value: V;
  onChange: (value: V) => void;
}) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="hidden">{props.label}</legend>
      {props.options.map(([value, label]) => (
        <label key={value} class={value === props.value ? "chosen" : ""}>
          <input
            type="radio"
            class="hidden"
            name={name}
            value={value}
            checked={value === props.value}
            onChange={() => props.onChange(value)}
          />
          {label}
        </label>
      ))}
    </fieldset>
  );
}

/** Tabs: sections of a page, one of which is visible. */
export function Tabs<V extends string>(props: {
  label: string;
  tabs: readonly (readonly [V, string])[];
  value: V;
  onChange: (value: V) => void;
  children: ComponentChildren;
}) {
  const id = useId();
  const step = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const at = props.tabs.findIndex(([value]) => value === props.value);
    const next = props.tabs[(at + by + props.tabs.length) % props.tabs.length];
    if (next) {
      props.onChange(next[0]);
      document.getElementById(`${id}-${next[0]}`)?.focus();
    }
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={props.label}>
        {props.tabs.map(([value, label]) => (
          <button
            key={value}
            type="button"
            role="tab"
            id={`${id}-${value}`}
            aria-selected={value === props.value}
            aria-controls={`${id}-panel`}
            tabIndex={value === props.value ? 0 : -1}
            onClick={() => props.onChange(value)}
            onKeyDown={step}
          >
            {label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${props.value}`}>
        {props.children}
      </div>
    </>
  );
}

/** A column of a table. */
export interface Column<R> {
  title: string;
  cell: (row: R) => ComponentChildren;
  /** Whether the column has numbers, which are right-aligned. */
  number?: boolean;
  /** Whether the column is hidden on narrow screens. */
  wide?: boolean;
}

/** A table that scrolls sideways separately from the page, also by keyboard. */
export function Table<R>(props: {
  caption: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  keyOf: (row: R) => string | number;
}) {
  return (
    <section class="table-box" tabIndex={0} aria-label={props.caption}>
      <table>
        <caption class="hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map(({ title, number, wide }) => (
              <th key={title} scope="col" class={classes(number, wide)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.keyOf(row)}>
              {props.columns.map(({ title, cell, number, wide }) => (
                <td key={title} class={classes(number, wide)}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function classes(number = false, wide = false): string {
  return `${number ? "number" : ""} ${wide ? "wide" : ""}`.trim();
}

/** A text whose large numbers and long prefixes break between groups, and only if they are longer than a line. */
export function Wrapped({ text }: { text: string }) {
  if (format.pieces(text).length === 1) return <>{text}</>;
  return (
    <>
      {wordsOf(text).map((word, index) => (
        <Word key={index} pieces={format.pieces(word)} />
      ))}
    </>
  );
}

function Word({ pieces: [first, ...rest] }: { pieces: string[] }) {
  if (rest.length === 0) return <>{first}</>;
  return (
    <span class="groups">
      {first}
      {rest.map((piece, index) => (
        <Fragment key={index}>
          <wbr />
          {piece}
        </Fragment>
      ))}
    </span>
  );
}

/** A prefix or an identifier. */
export function Code({ text }: { text: string }) {
  return (
    <code>
      <Wrapped text={text} />
    </code>
  );
}

/** A list of names and values. */
export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChildren] | false | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{typeof fact[1] === "string" ? <Wrapped text={fact[1]} /> : fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** A short mark, such as "sealed". */
export function Mark({
  kind,
  children,
}: {
  kind: "sealed" | "delegated" | "good" | "warn" | "plain";
  children: ComponentChildren;
}) {
  return <span class={`mark ${kind}`}>{children}</span>;
}
