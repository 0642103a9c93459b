// A region as the figures of the paper draw it: prefix | zone | suffix, bit by bit.

/** The widths of a region. */
export interface Shape {
  prefix: string;
  zoneBits: number;
  suffixBits: number;
}

/** Draws the bits of a region's identifiers. */
export function Bar({ shape, name }: { shape: Shape; name?: string }) {
  const { prefix, zoneBits, suffixBits } = shape;
  const isWide = prefix.length + zoneBits + suffixBits > 64;
  return (
    <div class={isWide ? "bar-row wide-bits" : "bar-row"}>
      {name !== undefined && <span class="bar-name">{name}</span>}
      <div
        class="bar"
        role="img"
        aria-label={`prefix ${prefix || "empty"}, zone of ${zoneBits} bits, suffix of ${suffixBits} bits`}
      >
        <Part kind="prefix" bits={prefix.length} digits={prefix} />
        <Part kind="zone" bits={zoneBits} digits={"0".repeat(zoneBits)} />
        <Part kind="suffix" bits={suffixBits} />
      </div>
    </div>
  );
}

/** A part of a bar. It shows its bits if all of them fit, and their number otherwise. */
function Part({ kind, bits, digits }: { kind: "prefix" | "zone" | "suffix"; bits: number; digits?: string }) {
  return bits === 0 ? null : (
    <span class={`part ${kind}`} style={{ flexGrow: String(bits) }} title={`${kind}: ${bits} bits`}>
      {digits !== undefined && <span class="digits">{digits}</span>}
      <span class={digits === undefined ? "" : "count"}>{bits}</span>
    </span>
  );
}

/** The meanings of the colors of bars and maps. */
export function Legend({ map = false }: { map?: boolean }) {
  return (
    <ul class="legend" aria-label="Colors">
      <li>
        <i class="prefix" />
        prefix
      </li>
      <li>
        <i class="zone" />
        zone: room to grow
      </li>
      <li>
        <i class="suffix" />
        suffix
      </li>
      {map && (
        <>
          <li>
            <i class="issued" />
            issued
          </li>
          <li>
            <i class="free" />
            free
          </li>
          <li>
            <i class="many" />
            several regions
          </li>
          <li>
            <i class="sealed" />
            sealed
          </li>
          <li>
            <i class="delegated" />
            delegated
          </li>
        </>
      )}
    </ul>
  );
}
