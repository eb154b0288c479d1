"""Match whole columns of keys against many patterns. Needs numpy (extra ``batch``); imported only where it is used."""
