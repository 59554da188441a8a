-- For wrk: requests of three kinds in turn, as a page makes them: for scripts, for styles, for data.
local accepts = { "*/*", "text/css,*/*;q=0.1", "application/json" }
local number = 0

function request()
  number = number + 1
  wrk.headers["Accept"] = accepts[number % 3 + 1]
  return wrk.format(nil, wrk.path .. number)
end
