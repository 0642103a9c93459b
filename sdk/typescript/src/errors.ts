// The errors of the client, and what the error of a call means for the next attempt.

import { type ServiceError, status } from "@grpc/grpc-js";
import { BadRequest, ErrorInfo, RetryInfo } from "./stubs/google/rpc/error_details.js";
import { Status } from "./stubs/google/rpc/status.js";

/** The kind of an error, for a `switch`. */
export type Kind = "refused" | "limited" | "unavailable" | "fenced" | "unusable" | "closed" | "config" | "call";

/** The name of a gRPC status code, such as `FAILED_PRECONDITION`. */
export type Code = keyof typeof status;

/** The base class of all errors of the client. */
export abstract class KentError extends Error {
  /** The kind of the error. */
  abstract readonly kind: Kind;

  /** Whether the same request may succeed later. */
  get isRetryable(): boolean {
    return this.kind === "limited" || this.kind === "unavailable" || this.kind === "fenced";
  }
}

/** A setting of the client or an argument of a call is invalid. */
export class ConfigError extends KentError {
  override readonly name: string = "ConfigError";
  readonly kind: Kind = "config";
}

/** A daemon answered with an error, or a connection broke. */
export class RpcFailure extends KentError {
  override readonly name: string = "RpcFailure";
  readonly kind: Kind = "call";
  /** The gRPC status code. */
  readonly code: Code;
  /** The daemon's message. */
  readonly details: string;
  /** The machine-readable reason, such as `SEALED`. Empty if the daemon gave no reason. */
  readonly reason: string = "";
  /** The details of the reason. */
  readonly metadata: Readonly<Record<string, string>> = {};
  /** The invalid fields of the request. */
  readonly fields: readonly string[] = [];
  /** The delay in milliseconds that the daemon asks for before a retry. */
  readonly retryAfterMs: number | undefined;

  constructor(error: ServiceError) {
    const code = status[error.code] as Code | undefined;
    const sent = statusOf(error);
    const message = sent?.message || decoded(error.details);
    super(`${code ?? error.code}: ${message}`);
    this.code = code ?? "UNKNOWN";
    this.details = message;
    for (const { typeUrl, value } of sent?.details ?? []) {
      switch (typeUrl.slice(typeUrl.lastIndexOf("/") + 1)) {
        case "google.rpc.ErrorInfo": {
          const info = ErrorInfo.decode(value);
          this.reason = info.reason;
          this.metadata = info.metadata;
          break;
        }
        case "google.rpc.RetryInfo": {
          const delay = RetryInfo.decode(value).retryDelay;
          this.retryAfterMs = Number(delay?.seconds ?? 0n) * 1000 + (delay?.nanos ?? 0) / 1e6;
          break;
        }
        case "google.rpc.BadRequest":
          this.fields = BadRequest.decode(value).fieldViolations.map((violation) => violation.field);
          break;
      }
    }
  }

  /** Whether an error comes from gRPC. @internal */
  static is(error: unknown): error is ServiceError {
    return error instanceof Error && !(error instanceof KentError) && "code" in error && "details" in error;
  }

  /** Whether another attempt can succeed. */
  get isTransient(): boolean {
    switch (this.code) {
      // Retries are safe, because a lost reply only leaves a gap.
      case "UNAVAILABLE":
      case "UNKNOWN":
      case "DEADLINE_EXCEEDED":
      case "CANCELLED":
      case "ABORTED":
        return true;
      // gRPC reports some broken connections this way. Kent's own errors have a reason.
      case "INTERNAL":
        return this.reason === "";
      // A delay means that a limit of the clock, the pace or the caller is temporary. The error of a full region has no
      // delay.
      case "RESOURCE_EXHAUSTED":
        return this.retryAfterMs !== undefined;
      default:
        return false;
    }
  }

  /** The source that continues the numbers of a closed region, such as `region:orders-eu`. */
  get heir(): string | undefined {
    return this.reason === "CLOSED" ? this.metadata["heir"] : undefined;
  }
}

/** The daemon refused the request. The same request would be refused again until the cause is removed. */
export class Refused extends RpcFailure {
  override readonly name = "Refused";
  override readonly kind = "refused";
}

/** The caller has used up one of its limits, and the wait (`retryAfterMs`) is longer than the timeout. */
export class Limited extends RpcFailure {
  override readonly name = "Limited";
  override readonly kind = "limited";
}

/** No daemon granted identifiers within the timeout. */
export class Unavailable extends KentError {
  override readonly name = "Unavailable";
  readonly kind = "unavailable";
  /** The last error of each endpoint. */
  readonly tried: ReadonlyMap<string, KentError>;

  constructor(tried: ReadonlyMap<string, KentError>) {
    const reasons = [...tried].map(([endpoint, error]) => `${endpoint}: ${error.message}`).join("; ");
    super(`no daemon granted identifiers in time (${reasons || "no reply yet"})`);
    this.tried = new Map(tried);
  }
}

/** Many blocks in a row were older than one already seen. The store was probably restored: create a new client. */
export class Fenced extends KentError {
  override readonly name = "Fenced";
  readonly kind = "fenced";
}

/** The reply of a daemon is invalid. The daemon and the client may have different versions. */
export class Unusable extends KentError {
  override readonly name = "Unusable";
  readonly kind = "unusable";
}

/** The client is closed. */
export class Closed extends KentError {
  override readonly name = "Closed";
  readonly kind = "closed";

  constructor() {
    super("the client is closed");
  }
}

function statusOf(error: ServiceError): Status | undefined {
  try {
    const [packed] = error.metadata.get("grpc-status-details-bin");
    return Buffer.isBuffer(packed) ? Status.decode(packed) : undefined;
  } catch {
    return undefined; // A proxy may send details that are not a status.
  }
}

/** Decodes what grpc-js leaves encoded in a message: it calls `decodeURI`, which skips the characters `;/?:@&=+$,#`. */
function decoded(message: string): string {
  return message.replace(/%(?:3B|2F|3F|3A|40|26|3D|2B|24|2C|23)/gi, decodeURIComponent);
}
