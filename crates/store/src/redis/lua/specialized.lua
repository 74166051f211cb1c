-- Fragments of specialised scripts: one record, with all limits inlined as constants, without functions and tables. Unusual
-- cases (a refusal, another layout, a clock that went backwards, a known idempotency key) break out before anything is
-- written, and the general script that follows decides anew.
-- Placeholders begin with a dollar sign; `specialized.rs` fills them in.
--# begin
repeat
local mono, utc, requests, tokens, _, max_cost, cap, lasts, number, name, claimed =
  struct.unpack('>i8I7I4I4BI7I7I7I6c8I7', ARGV[1])
local unpack, sub, call = struct.unpack, string.sub, redis.call
--# clock
local time = call('TIME')
mono = time[1] * 1000000 + time[2]
utc = mono
--# today
local today = (utc - utc % 86400000000) / 86400000000
--# month
local z = (utc - utc % 86400000000) / 86400000000 + 719468
local doe = z % 146097
local yoe = doe - (doe - doe % 1460) / 1460 + (doe - doe % 36524) / 36524 - (doe - doe % 146096) / 146096
yoe = (yoe - yoe % 365) / 365
local doy = 5 * (doe - (365 * yoe + (yoe - yoe % 4) / 4 - (yoe - yoe % 100) / 100)) + 2
local month = (doy - doy % 153) / 153
month = month < 10 and month + 3 or month - 9
month = (yoe + (z - z % 146097) / 146097 * 400 + (month <= 2 and 1 or 0)) * 12 + month
--# load
local raw = redis.pcall('GET', KEYS[1])
local keep, day, posted, held, holds$names = 0, 0, 0, 0, 0$zeros
if raw then
  if #raw < $length or sub(raw, 1, $named) ~= $name then break end
  keep, day, posted, held, holds$names = unpack('$format', raw, $named + 1)
  if #raw ~= $length + 20 * holds$lengths then break end
else
  raw = ''
end
local tightest, least, left = 0, 4294967296, 0
--# sliding
local p$i, b$i = (mono - mono % $slice) / $slice, false
if n$i ~= p$i then
  if $units > 0 then
    b$i = ''
    if s$i > 0 then
      if n$i > p$i then break end
      if p$i - n$i > 60 then
        s$i = 0
      else
        local from = $length + 1 + 20 * holds$before
        local last = from + 11 * o$i
        while from < last do
          local slice, used = unpack('>I7I4', raw, from)
          if slice > p$i - 61 then break end
          s$i = s$i - used
          from = from + 11
        end
        b$i = sub(raw, from, last - 1)
        if u$i > 0 then b$i = b$i .. struct.pack('>I7I4', n$i, u$i) end
      end
    end
    n$i, u$i = p$i, 0
  elseif s$i > 0 then
    break
  end
end
left = $capacity - s$i - $units
if left < 0 then break end
if left < least then tightest, least = $i, left end
u$i, s$i = u$i + $units, s$i + $units
--# rate
if t$i < mono then t$i = mono end
t$i = t$i + $unit * $units
left = mono + $all - t$i
if left < 0 then break end
left = (left - left % $unit) / $unit
if left < least then tightest, least = $i, left end
--# calendar
if n$i ~= $period then
  if n$i > $period then break end
  n$i, u$i = $period, 0
end
left = $capacity - u$i - $units
if left < 0 then break end
if left < least then tightest, least = $i, left end
u$i = u$i + $units
--# money
if day ~= today then
  if day > today or holds > 0 then break end
  day, posted, held = today, 0, 0
end
if max_cost > cap - posted - held then break end
-- Only the oldest of many holds is folded, and only once it has expired.
if holds > 31 and unpack('>I7', raw, $length - 6 + 20 * holds) <= mono then break end
held = held + max_cost
--# claim
local claim = struct.pack('>Bc8I6I7', 112, name, number, mono + claimed)
if not call('SET', KEYS[2], claim, 'NX', 'PX', ARGV[2]) then break end
--# moved
local rest
if $moved then
  rest = sub(raw, $length + 1, $length + 20 * holds)
  local from = $length + 1 + 20 * holds
--# older
  if b$i then
    from, rest, o$i = from + 11 * o$i, rest .. b$i, #b$i / 11
  else
    local last = from + 11 * o$i
    from, rest = last, rest .. sub(raw, from, last - 1)
  end
--# still
else
  rest = sub(raw, $length + 1)
end
--# rest
local rest = sub(raw, $length + 1)
--# end
local is_new = keep < mono + $lasts
if is_new then keep = mono + $kept end
raw = $name .. struct.pack('$format$hold', keep, day, posted, held, holds$more$names$held) .. rest
if is_new then
  call('SET', KEYS[1], raw, 'PX', '$px')
else
  call('SET', KEYS[1], raw, 'KEEPTTL')
end
do return struct.pack('>I7BI4', mono, tightest, least) end
until true
--# settle begin
repeat
local mono, utc, requests, tokens, _, reserved_day, _, actual_cost, number, name, kept, _, requests_now, tokens_now =
  struct.unpack('>i8I7I4I4BI4I7I7I6c8I7BI4I4', ARGV[1])
local unpack, sub, call = struct.unpack, string.sub, redis.call
-- Usage beyond the reservation is left to the general script.
if requests_now > requests or tokens_now > tokens then break end
requests, tokens = requests - requests_now, tokens - tokens_now
--# settle load
local raw = redis.pcall('GET', KEYS[1])
if not raw or #raw < $length or sub(raw, 1, $named) ~= $name then break end
local keep, day, posted, held, holds$names = unpack('$format', raw, $named + 1)
if #raw ~= $length + 20 * holds$lengths then break end
local holding, rest = sub(raw, $length + 1, $length + 20 * holds), sub(raw, $length + 1 + 20 * holds)
--# settle sliding
if $units > 0 and s$i > 0 then
  local mark = unpack('>I7', ARGV[1], $mark)
  if n$i == mark then
    local less = $units < u$i and $units or u$i
    u$i, s$i = u$i - less, s$i - less
  else
    local first = 1$before
    for pos = first + 11 * o$i - 11, first, -11 do
      local slice, used = unpack('>I7I4', rest, pos)
      if slice == mark then
        local less, still = $units < used and $units or used, ''
        if used > less then
          still = struct.pack('>I7I4', slice, used - less)
        else
          o$i = o$i - 1
        end
        s$i = s$i - less
        rest = sub(rest, 1, pos - 1) .. still .. sub(rest, pos + 11)
      end
      if slice <= mark then break end
    end
  end
end
--# settle rate
if $units > 0 then
  local owed = unpack('>I7', ARGV[1], $mark) - mono
  if owed > 0 then
    if owed > $unit * $units then owed = $unit * $units end
    t$i = t$i > owed and t$i - owed or 0
  end
end
--# settle calendar
if $units > 0 and n$i == unpack('>I7', ARGV[1], $mark) then
  u$i = u$i > $units and u$i - $units or 0
end
--# settle money
if day ~= reserved_day then break end
for pos = 1, 20 * holds, 20 do
  local which, max_cost = unpack('>I6I7', holding, pos)
  if which == number then
    posted, held, holds = posted + actual_cost, held - max_cost, holds - 1
    holding = sub(holding, 1, pos - 1) .. sub(holding, pos + 20)
    break
  end
end
--# settle claim
local claim = redis.pcall('GET', KEYS[2])
if claim then
  if #claim ~= 22 then break end
  local which, expires = unpack('>I6I7', claim, 10)
  if which == number and expires > mono and sub(claim, 1, 9) == 'p' .. name then
    if kept > 0 then
      call('SET', KEYS[2], struct.pack('>Bc8I6I7', 100, name, number, mono + kept), 'PX', ARGV[2])
    else
      call('DEL', KEYS[2])
    end
  end
end
--# settle end
local now = $name .. struct.pack('$format', keep, day, posted, held, holds$names) .. holding .. rest
if now ~= raw then call('SET', KEYS[1], now, 'KEEPTTL') end
do return 0 end
until true
