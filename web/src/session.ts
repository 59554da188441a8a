/** Who is signed in, for every page below the frame. */
import { createContext, useContext } from "react";
import type { User } from "./api/types";

export const SessionContext = createContext<User | null>(null);

export function useUser(): User {
  const user = useContext(SessionContext);
  if (!user) throw new Error("no session above this component");
  return user;
}
