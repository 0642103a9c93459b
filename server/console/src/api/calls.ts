// The daemon's API. Unary calls use the Connect protocol and streams use gRPC-Web, because the daemon's HTTP port
// serves these two. Messages are binary, because generated types cannot read the decimal strings that the daemon's JSON
// has for 128-bit numbers. All addresses are relative to the page, so the console works behind a proxy under any path.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";
import { Admin } from "../gen/kent/v1/admin_pb.ts";
import { Codec } from "../gen/kent/v1/codec_pb.ts";
import { Regions } from "../gen/kent/v1/regions_pb.ts";

/** The address of the daemon's API: the address of the page without `console/`. */
export const BASE = new URL(import.meta.env.DEV ? "/" : "..", document.baseURI);

/** The header that tells the daemon that a request with a cookie comes from the console and not from another site. */
export const MARK = { "Kent-Console": "1" };

/** The event that is dispatched on the window when the daemon no longer accepts the browser's credentials. */
export const SIGNED_OUT = "kent-signed-out";

const mark: Interceptor = (next) => async (request) => {
  for (const [name, value] of Object.entries(MARK)) request.header.set(name, value);
  try {
    return await next(request);
  } catch (error) {
    if (ConnectError.from(error).code === Code.Unauthenticated) dispatchEvent(new Event(SIGNED_OUT));
    throw error;
  }
};

/** Fetches, and says in plain words if the daemon cannot be reached. The browser's own words are poor. */
const reach: typeof fetch = async (...request) => {
  try {
    return await fetch(...request);
  } catch (error) {
    // An aborted call is not a TypeError.
    if (!(error instanceof TypeError)) throw error;
    throw new ConnectError(`The daemon at ${BASE.href} cannot be reached.`, Code.Unavailable);
  }
};

const settings = { baseUrl: BASE.href.replace(/\/$/, ""), interceptors: [mark], fetch: reach };
const unary = createConnectTransport({ ...settings, useBinaryFormat: true, defaultTimeoutMs: 30_000 });
const streams = createGrpcWebTransport(settings);

/** The daemon's state. */
export const admin = createClient(Admin, unary);
/** Decodes identifiers. */
export const codec = createClient(Codec, unary);
/** Spaces and their tables. */
export const regions = createClient(Regions, unary);
/** Streams the daemon's metrics, second by second, and the edits of tables as they are made. */
export const watchConsole = createClient(Admin, streams).watchConsole;
