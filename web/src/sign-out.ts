import { call } from "./api/client";

export async function signOut(): Promise<void> {
  try {
    await call("POST", "/auth/logout");
  } finally {
    // A fresh page forgets everything of the person who left: queries, live state, notices.
    window.location.assign("/login");
  }
}
