/**
 * Client of Kent, the service that allocates unique identifiers.
 *
 * ```ts
 * import { Client } from "kent-client";
 *
 * const client = new Client("127.0.0.1:7600");
 * console.log(await client.uuidV7().next());
 * ```
 *
 * @module
 */

export type { UnaryMethod } from "./calls.js";
export { Client } from "./client.js";
export {
  Closed,
  type Code,
  ConfigError,
  Fenced,
  KentError,
  type Kind,
  Limited,
  Refused,
  RpcFailure,
  Unavailable,
  Unusable,
} from "./errors.js";
export type { ClientOptions, Pem } from "./settings.js";
export type { Source, Timeout } from "./source.js";
