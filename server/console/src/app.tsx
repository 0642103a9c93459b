// The frame of all pages: the user, the links to the pages, and the dialog for edits.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { SIGNED_OUT } from "./api/calls.ts";
import { endLive } from "./api/live.ts";
import { askSession, type Session, signOut, type Who } from "./api/session.ts";
import { AppContext } from "./app-state.ts";
import { EditDialog } from "./edits/dialog.tsx";
import type { EditIntent } from "./edits/intent.ts";
import { format } from "./lib/format.ts";
import { labelOf } from "./lib/requests.ts";
import { hasRegions, mayAnywhere } from "./lib/rights.ts";
import { endOf } from "./lib/who.ts";
import { HistoryPage } from "./pages/history.tsx";
import { InspectPage } from "./pages/inspect.tsx";
import { LivePage } from "./pages/live.tsx";
import { MapPage } from "./pages/map.tsx";
import { RegionPage } from "./pages/region.tsx";
import { RequestsPage } from "./pages/requests.tsx";
import { SignInPage } from "./pages/sign-in.tsx";
import { linkTo, type Route, useRoute } from "./router.ts";
import { keep, kept } from "./ui/kept.ts";
import { Menu } from "./ui/menu.tsx";
import { Check } from "./ui/parts.tsx";
import { useRequests } from "./ui/requests.ts";
import { Empty, Loading } from "./ui/states.tsx";
import { ThemeChoice } from "./ui/theme.tsx";
import { Toasts } from "./ui/toast.tsx";

const DEFAULT_SPACE = "default";
/** How often the navigation counts the requests. */
const REQUESTS_MS = 15_000;
const EXPIRY_WARNING_MS = 60 * 60 * 1000;

/** The console. */
export function App() {
  const [session, setSession] = useState<Session>({ state: "unknown" });
  const ask = useCallback(() => void askSession().then(setSession), []);
  useEffect(() => {
    ask();
    addEventListener(SIGNED_OUT, ask);
    return () => removeEventListener(SIGNED_OUT, ask);
  }, [ask]);
  switch (session.state) {
    case "unknown":
      return (
        <main class="alone">
          <h1 class="hidden">Kent</h1>
          <Loading what="the console" />
        </main>
      );
    case "unreachable":
      return (
        <main class="alone">
          <h1 class="hidden">Kent</h1>
          <Empty title="The daemon does not answer">
            <p>{session.message}</p>
            <button type="button" onClick={ask}>
              Try again
            </button>
          </Empty>
        </main>
      );
    case "no-certificate":
      return (
        <main class="alone">
          <h1 class="hidden">Kent</h1>
          <Empty title="This daemon needs a client certificate">
            <p>
              Your browser sent none. Add a certificate that a CA of the daemon has signed to the browser. If the
              browser remembers that you chose none, restart it.
            </p>
            <button type="button" onClick={ask}>
              Try again
            </button>
          </Empty>
        </main>
      );
    case "out":
      return <SignInPage onDone={ask} />;
    case "in":
      return <Frame who={session.who} onSignOut={() => void signOut().then(endLive).then(ask)} />;
  }
}

function Frame({ who, onSignOut }: { who: Who; onSignOut: () => void }) {
  const route = useRoute();
  const [readOnly, setReadOnly] = useState(kept("read-only") === "yes");
  const [intent, setIntent] = useState<EditIntent>();
  const [made, setMade] = useState(0);
  const app = useMemo(() => ({ who, readOnly, edit: setIntent }), [who, readOnly]);
  const space = route.path[0] ?? DEFAULT_SPACE;
  const has = hasRegions(who.permissions, space);
  const requests = useRequests({ space, includeClosed: false, news: made, everyMs: REQUESTS_MS, has });
  const hasRequests = has && requests.refused?.kind !== "no-permission";
  const again = useCallback(() => setMade((before) => before + 1), []);

  useEffect(() => {
    document.title = `${titleOf(route)} · Kent`;
  }, [route.page, space]);

  return (
    <AppContext.Provider value={app}>
      <header class="top">
        <button type="button" class="skip" onClick={toContent}>
          Skip to content
        </button>
        <a class="brand" href={linkTo("live")}>
          <span class="brand-mark" aria-hidden="true">
            <i />
            <i />
            <i />
          </span>
          Kent
        </a>
        <nav aria-label="Pages">
          {(
            [
              ["live", "Live", linkTo("live")],
              ["map", "Map", linkTo("map", [space])],
              ["history", "History", linkTo("history", [space])],
              ["inspect", "Inspector", linkTo("inspect")],
              // A user without any permission in the space has no requests there.
              ...(hasRequests
                ? [["requests", labelOf(requests.value ?? []), linkTo("requests", [space])] as const]
                : []),
            ] as const
          ).map(([page, label, link]) => (
            <a key={page} href={link} aria-current={pageOf(route) === page ? "page" : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <Account
          who={who}
          readOnly={readOnly}
          onReadOnly={(on) => {
            keep("read-only", on ? "yes" : "no");
            setReadOnly(on);
          }}
          onSignOut={onSignOut}
        />
      </header>
      <main id="content" tabIndex={-1}>
        <Page route={route} space={space} key={`${route.page} ${route.path.join("/")}`} made={made} onDone={again} />
      </main>
      {intent && <EditDialog intent={intent} onClose={() => setIntent(undefined)} onMade={again} />}
      <Toasts />
    </AppContext.Provider>
  );
}

/** Moves the focus to the content. A link to an anchor cannot do this, because the part of the address after # names a
 * page. */
function toContent() {
  document.getElementById("content")?.focus();
}

function pageOf(route: Route): string {
  return route.page === "region" ? "map" : route.page || "live";
}

function titleOf({ page, path }: Route): string {
  const names: Record<string, string> = {
    map: "Map",
    history: "History",
    inspect: "Inspector",
    requests: "Requests",
    region: path[1] ?? "Region",
  };
  return names[page] ?? "Live";
}

function Page(props: { route: Route; space: string; made: number; onDone: () => void }) {
  const { route, space, made, onDone } = props;
  switch (route.page) {
    case "":
    case "live":
      return <LivePage />;
    case "map":
      return <MapPage space={space} params={route.params} made={made} onDone={onDone} />;
    case "requests":
      return <RequestsPage space={space} made={made} onDone={onDone} />;
    case "region":
      return <RegionPage space={space} region={route.path[1] ?? ""} params={route.params} made={made} />;
    case "history":
      return <HistoryPage space={space} made={made} />;
    case "inspect":
      return <InspectPage params={route.params} />;
    default:
      return (
        <div class="page">
          <h1>There is no such page</h1>
          <p>
            <a href={linkTo("live")}>Go to the live page</a>
          </p>
        </div>
      );
  }
}

/** The user, the end of the session, and the settings of this browser. */
function Account(props: { who: Who; readOnly: boolean; onReadOnly: (on: boolean) => void; onSignOut: () => void }) {
  const { who, readOnly, onReadOnly, onSignOut } = props;
  const expires = who.expiresUnixMs;
  const isSoon = expires !== undefined && expires - Date.now() < EXPIRY_WARNING_MS;
  return (
    <Menu
      class="account"
      label={
        <>
          <span class="account-name">
            {who.authRequired ? who.principal.replace(/^token:\w+ \((.*)\)$/, "$1") : "no sign-in needed"}
          </span>
          {isSoon && expires !== undefined && <span class="mark warn">expires {format.ago(expires, Date.now())}</span>}
          {readOnly && <span class="mark plain">read-only</span>}
        </>
      }
    >
      <p>
        {who.principal}
        <br />
        <span class="quiet-text">{endOf(who)}</span>
      </p>
      {mayAnywhere(who.permissions, "edit") && (
        <Check label="Read-only: offer no edits in this browser" checked={readOnly} onChange={onReadOnly} />
      )}
      <ThemeChoice />
      {who.by === "session" && (
        <button type="button" onClick={onSignOut}>
          Sign out
        </button>
      )}
    </Menu>
  );
}
