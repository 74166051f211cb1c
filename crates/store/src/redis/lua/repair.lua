local fine, answer = pcall(decide)
if fine then return answer end
-- Somebody has written here what none of us has. Nobody knows what was used, so all of it was: until that has passed, or
-- until somebody takes the record away.
local function is_claim(key)
  local raw = redis.call('GET', key)
  if raw and #raw ~= 22 then error('another claim') end
end
for index = 1, ask[12] do
  if not pcall(load, KEYS[index]) then
    local record = { 1, mono + 1000, 0, 0, 0, '' }
    for from = 13, last, 5 do
      if ask[from] == index then
        local at = #record + 1
        begin(record, at, ask[from + 1], ask[from + 2])
        take(record, at, ask[from + 2], ask[from + 3])
      end
    end
    if ask[5] == index then
      record[3], record[4] = floor(utc / DAY), ask[7]
      record[2] = max(record[2], mono + (record[3] + 1) * DAY - utc + 3600000000)
    end
    save(KEYS[index], record)
  end
end
if #KEYS > ask[12] and not pcall(is_claim, KEYS[ask[12] + 1]) then
  local claim = 'p' .. ask[10] .. pack('>I6I7', 0, mono + ask[11])
  redis.call('SET', KEYS[ask[12] + 1], claim, 'PX', ttl(ask[11]))
end
return { 9, tostring(answer) }
