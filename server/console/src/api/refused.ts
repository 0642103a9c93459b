// Why a call failed, in a form that pages can show.
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { type EditSuggestion, EditSuggestionSchema } from "../gen/kent/v1/regions_pb.ts";

/** A failed call. */
export interface Refused {
  /** The kind of failure, which decides what a page shows. */
  kind: "sign-in" | "no-permission" | "not-there" | "unreachable" | "rule" | "failed";
  /** The rule, such as ZONE_TOO_SMALL. Empty if the daemon gave no rule. */
  rule: string;
  message: string;
  /** A similar edit that is legal. */
  suggestion?: EditSuggestion;
}

const CUT_OFF = "The connection to the daemon broke off.";

/** Converts the error of a call. */
export function refusedBy(error: unknown): Refused {
  const failure = ConnectError.from(error);
  if (isCutOff(failure.cause)) return { kind: "unreachable", rule: "", message: CUT_OFF };
  const info = failure.findDetails(ErrorInfoSchema)[0];
  const suggestion = failure.findDetails(EditSuggestionSchema)[0];
  return {
    kind: kindOf(failure.code, info?.reason ?? ""),
    rule: info?.reason ?? "",
    message: withoutHints(failure.rawMessage),
    ...(suggestion ? { suggestion } : {}),
  };
}

/** Whether an error is the browser's for a connection that broke off during an answer. */
function isCutOff(cause: unknown): boolean {
  return cause instanceof TypeError && /network|fetch|load failed|input stream/i.test(cause.message);
}

/** Removes hints for the command line, in parentheses at the end, which do not help in a browser. */
function withoutHints(message: string): string {
  return message.replace(/ \((?=[^()]*kent )[^()]*\)$/, "");
}

function kindOf(code: Code, rule: string): Refused["kind"] {
  switch (code) {
    case Code.Unauthenticated:
      return "sign-in";
    case Code.PermissionDenied:
      return "no-permission";
    case Code.NotFound:
    case Code.Unimplemented:
      return "not-there";
    case Code.Unavailable:
    case Code.DeadlineExceeded:
      return "unreachable";
    default:
      return rule === "" ? "failed" : "rule";
  }
}
