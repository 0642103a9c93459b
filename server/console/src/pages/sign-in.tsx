// Signing in with a token.
import { useState } from "preact/hooks";
import { signIn } from "../api/session.ts";
import { Field } from "../ui/parts.tsx";
import { ThemeChoice } from "../ui/theme.tsx";

/** The page for users who are not signed in. */
export function SignInPage({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string>();
  const [asking, setAsking] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    setAsking(true);
    const failed = await signIn(token.trim());
    setAsking(false);
    setProblem(failed);
    if (failed === undefined) onDone();
  };
  return (
    <main class="alone">
      <form class="card sign-in" onSubmit={submit}>
        <h1>Sign in to Kent</h1>
        <Field
          label="Token"
          hint={
            <>
              An operator makes one: <code>kent token create NAME --allow read:*</code>
            </>
          }
          problem={problem}
        >
          <input
            type="password"
            autocomplete="current-password"
            required
            autofocus
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
            placeholder="kent_…"
          />
        </Field>
        <button type="submit" class="primary" disabled={asking || token.trim() === ""}>
          Sign in
        </button>
        <p class="quiet-text">
          The daemon exchanges the token for a cookie that scripts cannot read. With a client certificate, a browser
          needs no token.
        </p>
        <ThemeChoice />
      </form>
    </main>
  );
}
