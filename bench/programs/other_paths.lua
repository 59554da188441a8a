-- For wrk: every request asks for another path, so that no proxy can have seen it before.
local number = 0

function request()
  number = number + 1
  return wrk.format(nil, wrk.path .. number)
end
