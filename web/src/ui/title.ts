/** What the tab says: the page, then the product, so that ten tabs can be told apart. */
import { useEffect } from "react";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · CodeHub`;
    return () => void (document.title = "CodeHub");
  }, [title]);
}
