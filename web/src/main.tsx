// First, so that the styles of components come after what they build on.
import "./styles/index.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { Component, StrictMode, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { App } from "./app";
import { languageMissing } from "./actions/language";
import { messages, speakChosen } from "./i18n";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: true,
      // Refusals stay refusals; only silence is worth asking again.
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 502),
    },
  },
});

class Crash extends Component<{ children: ReactNode }, { crashed: boolean }> {
  override state = { crashed: false };

  static getDerivedStateFromError() {
    return { crashed: true };
  }

  override render() {
    if (!this.state.crashed) return this.props.children;
    const m = messages();
    return (
      <main className="page failed" role="alert">
        <p>{m.app.crash}</p>
        <button type="button" className="button" onClick={() => window.location.reload()}>
          {m.app.reload}
        </button>
      </main>
    );
  }
}

const root = document.getElementById("root");
speakChosen()
  .catch(() => languageMissing("ko"))
  .finally(() => root && show(root));

function show(place: HTMLElement) {
  createRoot(place).render(
    <StrictMode>
      <Crash>
        <QueryClientProvider client={client}>
          <App />
        </QueryClientProvider>
      </Crash>
    </StrictMode>,
  );
}
